"""Articles 1, 5 and 6: what the owner's pages keep: old texts, long lists page by page, an author's own messages."""
import html
import random
import re
import unittest
from unittest import mock

from tests.pages_world import FORM, NASTY, Person, fields_of
from tests.test_article6_pages import Case

import access
import note_people
import owner
import pages
import pages_articles
import proposal_card
import versioned
import workspace
from pages_articles import difference

AT = ('knowledge_base', 'support', 'refund-policy')


def words(page):
    """A page as it is read: no tags, one space between words."""
    return ' '.join(html.unescape(re.sub(r'<[^>]*>', ' ', page.text)).split())


class History(Case):
    """Article 1: every saved version of an article, who and when, its text, the difference, and the way back."""

    def saved(self, page, **changes):
        reply = self.owner.send(page, 'save_article', **changes)
        self.assertEqual(reply.status, 303)
        return self.owner.get(reply['location'])

    def versions(self, page):
        """The addresses of the versions that an article's page lists, newest first."""
        return [html.unescape(one) for one in re.findall(r'<a href="([^"]+)"><time', page.text)]

    def test_a_version_shows_who_saved_it_its_text_and_the_difference_to_the_one_before(self):
        page = self.saved(self.owner.page(*AT), content='14 days, says the law.')
        newest, published, oldest = self.versions(page)
        shown = self.owner.get(newest)
        for part in ('saved just now by Owner', '-Customers may return', '+14 days, says the law.', 'This is the article as it is now.'):
            self.assertIn(part, words(shown))
        self.assertIn('-State: draft +State: published', words(self.owner.get(published)))
        shown = words(self.owner.get(oldest))
        self.assertIn('Nothing older is kept', shown)
        self.assertIn('The whole text Customers may return a plan within 30 days', shown)

    def test_an_assistants_edit_stands_under_its_name(self):
        _, token = self.active()
        read = self.tool(token, 'read_knowledge_article', knowledge_base_id='support', article_id='refund-policy')
        self.tool(token, 'edit_knowledge_article', knowledge_base_id='support', article_id='refund-policy', content='60 days',
                  expected_version=read['citation']['updated_at'], idempotency_key='edit-by-agent-1')
        page = self.owner.page(*AT)
        self.assertIn('Claude research (assistant)', words(page))
        self.assertIn('+60 days', words(self.owner.get(self.versions(page)[0])))

    def test_an_old_text_is_put_back_as_a_new_save(self):
        page = self.saved(self.owner.page(*AT), title='Money back', content='14 days')
        old = self.owner.get(self.versions(page)[1])
        reply = self.owner.send(old, 'put_article_back')
        self.assertEqual((reply.status, reply['location']), (303, self.owner.home + '/'.join(AT)))
        page = self.owner.page(*AT)
        fields = self.owner.forms(page, 'save_article')[0][1]
        self.assertEqual(fields['title'], 'Refund policy')
        self.assertIn('within 30 days', fields['content'])
        self.assertEqual(len(self.versions(page)), 4)          # a draft, published, retitled, put back

    def test_to_put_back_over_what_was_saved_in_between_is_refused_and_can_be_done_again(self):
        page = self.saved(self.owner.page(*AT), content='14 days')
        old = self.owner.get(self.versions(page)[1])
        self.saved(self.owner.page(*AT), content='60 days, says Mika')
        reply = self.owner.send(old, 'put_article_back')
        self.assertEqual(reply.status, 409)
        self.assertIn('Not put back: somebody saved this article in between.', words(reply))
        self.assertIn('60 days, says Mika', self.owner.page(*AT).text)
        self.assertEqual(self.owner.send(reply, 'put_article_back').status, 303)
        self.assertIn('within 30 days', self.owner.page(*AT).text)

    def test_a_viewer_reads_old_versions_and_puts_nothing_back(self):
        page = self.saved(self.owner.page(*AT), content='14 days')
        old = '/'.join(self.versions(page)[1].split('/')[3:])
        aiko, mika = Person(self.world, 'aiko'), Person(self.world, 'mika')
        self.assertIn('within 30 days', aiko.page(old).text)
        self.assertEqual(aiko.forms(aiko.page(old), 'put_article_back'), [])
        page = mika.page(old)
        self.world.click('set_role', of='mika', kind='workspace', id='workspace', role='viewer')
        self.assertEqual(mika.send(page, 'put_article_back').status, 403)

    def test_versions_that_never_were_and_of_other_articles_are_404(self):
        stamp = self.versions(self.owner.page(*AT))[0].rsplit('/', 1)[1]
        for parts in ((*AT, '2020-01-01T00:00:00Z'), ('knowledge_base', 'support', 'opening-hours', stamp)):
            self.assertEqual(self.owner.page(*parts).status, 404)
        self.assertEqual(self.owner.page(*AT, 'yesterday').status, 400)

    def test_a_long_history_is_paged_and_a_megabyte_with_hidden_characters_can_be_compared(self):
        self.world.click('save_article', knowledge_base_id='support', article_id='refund-policy', title='T', content='y')
        for number in range(25):         # the last two are the ones that are compared
            self.world.click('save_article', knowledge_base_id='support', article_id='refund-policy', title='T',
                             content='y\n' * (490_000 if number > 22 else 1) + f'{NASTY} {number}')
        page = self.owner.page(*AT)
        self.assertEqual(len(self.versions(page)), pages_articles.HISTORY_SHOWN)
        self.assertIn('Earlier versions', page.text)
        shown = self.owner.get(self.versions(page)[0]).text
        changed = re.search(r'<ins>(.*?)</ins>', shown, re.DOTALL).group(1)
        self.assertIn('&lt;script&gt;', changed)
        self.assertIn('&lt;U+202E&gt;', changed)
        self.assertEqual(shown.count('<ins>'), 1)
        self.assertLess(len(shown), 1_300_000, 'what is equal is not shown twice')


class Differences(unittest.TestCase):
    def test_every_changed_line_is_there_and_three_equal_ones_around_it(self):
        old = [str(number) for number in range(30)]
        new = [*old[:10], 'x', *old[11:20], *old[21:]]
        self.assertEqual(difference(old, new), [
            ' 7', ' 8', ' 9', '-10', '+x', ' 11', ' 12', ' 13', ' …', ' 17', ' 18', ' 19', '-20', ' 21', ' 22', ' 23'])
        self.assertEqual(difference(old, old), [])
        self.assertEqual(difference([], ['a']), ['+a'])
        self.assertEqual(difference(['a'], ['a', 'a']), [' a', '+a'])
        self.assertEqual(difference(['a', 'a'], ['a']), [' a', '-a'])

    def test_old_and_new_can_be_read_off_it_whatever_changed(self):
        draw = random.Random(1)
        for _ in range(300):
            old, new = ([draw.choice('abc') for _ in range(draw.randrange(9))] for _ in range(2))
            with mock.patch.object(proposal_card, 'CONTEXT', 9):
                lines = difference(old, new)
            for side, mark in ((old, '-'), (new, '+')):
                self.assertEqual([line[1:] for line in lines if line[0] in ' ' + mark], side if old != new else [])

    def test_thousands_of_changed_lines_are_all_shown_without_comparing_each_with_each(self):
        old, new = [f'a{n}' for n in range(50_000)], [f'b{n}' for n in range(50_000)]
        lines = difference(['same', *old], ['same', *new])
        self.assertEqual(lines, [' same', *('-' + line for line in old), *('+' + line for line in new)])


class LongLists(Case):
    def read_all(self, at, name='after'):
        """The names on all pages of a list, and how many pages there are."""
        seen, address, count = [], self.owner.home + at, 0
        while address:
            page, count = self.owner.get(address), count + 1
            self.assertEqual(page.status, 200)
            seen += re.findall(r'<bdi>((?:Connection|Item|Person|Project) \d+)</bdi>', page.text)
            following = re.search(rf'<a href="(\?{name}=[^"]+)">Next page', page.text)
            address = self.owner.home + at + html.unescape(following.group(1)) if following else None
        return seen, count

    def test_connections_items_projects_and_people_are_paged_without_a_gap(self):
        for number in range(60):
            self.world.click('add_assistant', display_name=f'Connection {number}')
            self.world.click('create_room', room_id=f'r{number}', name=f'Item {number}', project='launch-q3')
            self.world.click('create_room', room_id=f'l{number}', name=f'Item {100 + number}')
            self.world.click('create_project', project=f'p{number}', name=f'Project {number}')
            self.world.click('add_person', of=f'person{number}', name=f'Person {number}')
        for at, name, what, first in (('', 'after', 'Connection', 0), ('project/launch-q3', 'after', 'Item', 0),
                                      ('projects', 'loose', 'Item', 100), ('projects', 'after', 'Project', 0),
                                      ('people', 'after', 'Person', 0)):
            with self.subTest(at=at, name=name):
                seen, count = self.read_all(at, name)
                found = [one for one in seen if one.startswith(what + ' ')]
                self.assertEqual(sorted(found), sorted(f'{what} {first + number}' for number in range(60)))
                self.assertEqual(count, 2)
        self.assertIn('more than 50 items', self.owner.page('projects').text)

    def test_what_may_not_be_seen_makes_no_short_page_and_a_stranger_key_begins_at_the_beginning(self):
        for number in range(70):
            self.world.click('create_room', room_id=f'r{number:02}', name=f'Item {number:02}', project='launch-q3')
            if number < 10:
                self.world.click('set_role', of='aiko', kind='room', id=f'r{number:02}', role='none')
        aiko = Person(self.world, 'aiko')
        shown = aiko.page('project', 'launch-q3').text
        self.assertNotIn('<bdi>Item 09</bdi>', shown)
        self.assertEqual(len(re.findall(r'href="[^"]*/(?:note|room|channel|knowledge_base|record_channel|repository)/[^"]*"', shown)),
                         pages.A_PAGE)
        self.assertEqual(aiko.page('project', 'launch-q3?after=room:gone').text, shown)

    def test_a_click_on_an_earlier_page_leads_back_to_it(self):
        for number in range(60):
            self.world.click('post_message', channel_id='launch-talk', text=f'Message {number}',
                             idempotency_key=f'long-list-{number:03}')
        page = self.owner.page('channel', 'launch-talk')
        earlier = re.search(r'<a href="(\?after=[^"]+)">Earlier', page.text).group(1)
        page = self.owner.get(self.owner.home + 'channel/launch-talk' + earlier)
        reply = self.owner.send(page, 'edit_message', 0, text='Put right')
        self.assertTrue(reply['location'].endswith('channel/launch-talk' + earlier), reply['location'])
        self.assertIn('Put right', self.owner.get(reply['location']).text)
        for back in ('channel/launch-talk?after=x\r\nX-Evil: 1', 'channel/launch-talk?a=//evil&b=%0d%0aX: 1'):
            address, fields = self.owner.forms(page, 'edit_message')[1]
            reply = self.owner.post(address, {**fields, 'back': back})
            self.assertEqual((reply.status, reply['x-evil'], reply['x']), (303, None, None))


class Messages(Case):
    """An author changes and deletes his own words; nobody else's are his to change."""

    def setUp(self):
        super().setUp()
        self.at = ('channel', 'launch-talk')
        self.mika = Person(self.world, 'mika')
        self.mika.send(self.mika.page(*self.at), 'post_message', text='Ready on Monday')

    def test_the_author_edits_and_the_page_says_so(self):
        reply = self.mika.send(self.mika.page(*self.at), 'edit_message', text='Ready on Tuesday')
        self.assertEqual(reply.status, 303)
        shown = words(self.owner.page(*self.at))
        self.assertIn('Ready on Tuesday', shown)
        self.assertIn('edited just now', shown)
        self.assertNotIn('Ready on Monday', shown)

    def test_the_author_deletes_and_the_place_stays(self):
        self.mika.send(self.mika.page(*self.at), 'delete_message')
        shown = words(self.owner.page(*self.at))
        self.assertIn('Mika just now Its author deleted it.', shown)
        self.assertNotIn('Ready on Monday', shown)
        self.assertEqual(self.mika.forms(self.mika.page(*self.at), 'edit_message'), [])

    def test_only_the_author_is_shown_the_forms_and_only_his_click_counts(self):
        mine = [fields['message_id'] for _, fields in self.owner.forms(self.owner.page(*self.at), 'edit_message')]
        theirs = [fields['message_id'] for _, fields in self.mika.forms(self.mika.page(*self.at), 'edit_message')]
        self.assertEqual((len(mine), len(theirs), set(mine) & set(theirs)), (1, 1, set()))
        reply = self.owner.send(self.owner.page(*self.at), 'edit_message', message_id=theirs[0], text='not mine')
        self.assertEqual(reply.status, 409)
        self.assertIn('only the author', words(reply).lower())
        self.assertIn('Ready on Monday', self.owner.page(*self.at).text)

    def test_a_message_deleted_in_another_window_is_not_brought_back(self):
        page = self.mika.page(*self.at)
        self.mika.send(self.mika.page(*self.at), 'delete_message')
        self.assertEqual(self.mika.send(page, 'edit_message', text='again').status, 409)
        self.assertNotIn('>again<', self.mika.page(*self.at).text)

    def test_what_was_typed_comes_back_into_its_own_form_when_it_is_refused(self):
        reply = self.mika.send(self.mika.page(*self.at), 'edit_message', text='x' * 10_001)
        self.assertEqual(reply.status, 400)
        self.assertEqual(len(self.mika.forms(reply, 'edit_message')[0][1]['text']), 10_001)
        self.assertEqual(self.mika.forms(reply, 'post_message')[0][1]['text'], '')
        self.assertIn('<details open>', reply.text)

    def test_a_thread_is_a_page_of_its_own_with_a_reply(self):
        page = self.owner.page(*self.at)
        root = re.findall(r'/channel/launch-talk/(m\d+)', page.text)[-1]
        reply = self.owner.send(self.owner.page(*self.at, root), 'post_message', text='On <Tuesday>')
        self.assertEqual(reply['location'], self.owner.home + '/'.join((*self.at, root)))
        shown = self.owner.get(reply['location'])
        self.assertIn('Ready on Monday', shown.text)
        self.assertIn('On &lt;Tuesday&gt;', shown.text)
        self.assertNotIn('On &lt;Tuesday&gt;', self.owner.page(*self.at).text)
        self.assertIn('Replies: 1', words(self.owner.page(*self.at)))
        self.assertEqual(self.owner.page(*self.at, 'm999999').status, 404)

    def test_a_private_channel_is_there_for_its_members_only(self):
        self.world.click('post_message', channel_id='press', text='under embargo', idempotency_key='private-words-1')
        self.assertIn('under embargo', self.owner.page('channel', 'press').text)
        self.assertIn('Press', self.owner.page('projects').text)
        for at in (('channel', 'press'), ('events', 'channel', 'press'), ('channel', 'press', 'm000001')):
            self.assertEqual(self.mika.page(*at).status, 404)
        self.assertNotIn('Press', self.mika.page('projects').text)
        self.world.click('set_member', channel_id='press', handle='mika', kind='person', reachable=True)
        self.assertIn('under embargo', self.mika.page('channel', 'press').text)


class PeopleAndFiles(Case):
    def test_an_ordinary_or_a_private_channel_is_made_and_people_are_let_in_and_out_of_it(self):
        reply = self.owner.send(self.owner.page('projects'), 'create_channel', name='Under embargo', private='yes')
        self.assertEqual(reply.status, 303)
        at, mika = reply['location'][len(self.owner.home):], Person(self.world, 'mika')
        self.assertEqual(self.world.rows("SELECT private FROM channels WHERE name = 'Under embargo'"), [(1,)])
        self.assertEqual(mika.page(at).status, 404)
        self.owner.send(self.owner.page(at), 'set_member', handle='mika')
        self.assertEqual(mika.page(at).status, 200)
        offered = [fields['handle'] for _, fields in mika.forms(mika.page(at), 'remove_member')]
        self.assertEqual((offered, mika.forms(mika.page(at), 'set_member')), (['mika'], []))
        self.assertEqual(mika.send(mika.page(at), 'remove_member', handle='owner').status, 409)
        page = self.owner.page(at)
        self.assertEqual([fields['handle'] for _, fields in self.owner.forms(page, 'remove_member')], ['mika'])
        self.owner.send(page, 'remove_member')
        self.assertEqual(mika.page(at).status, 404)
        reply = self.owner.send(self.owner.page('projects'), 'create_channel', name='Open to all')
        self.assertEqual(mika.get(mika.home + reply['location'][len(self.owner.home):]).status, 200)

    def test_whoever_is_taken_out_of_the_workspace_sees_nothing_from_the_next_click_on(self):
        mika, page = Person(self.world, 'mika'), self.owner.page('people')
        number = [fields['of'] for _, fields in self.owner.forms(page, 'clear_role')].index('mika')
        self.assertEqual(self.owner.send(page, 'clear_role', number).status, 303)
        self.assertEqual(mika.page('note', 'q3-launch').status, 404)
        self.assertNotIn('Mika', words(self.owner.page('people')))

    def attach(self, called='', kind='application/octet-stream', content=b'', **fields):
        return self.owner.send(self.owner.page('note', 'q3-launch'), 'attach_file', files={'file': (called, kind, content)},
                               **fields)

    def files(self, page):
        return {name: html.unescape(at) for at, name in
                re.findall(r'<a href="([^"]+/file/[^"]+)"><bdi>(.*?)</bdi>', page.text)}

    def test_a_file_comes_back_byte_for_byte_and_only_as_a_download(self):
        every_byte = bytes(range(256)) * 7 + b'\r\n--\r\n\r\n'
        for called, shown in (('plan %22é%22.pdf', 'plan "é".pdf'), ('C:\\scans\\page.html', 'page.html')):
            with self.subTest(called=called):
                self.assertEqual(self.attach(called, 'text/html', every_byte).status, 303)
                page = self.owner.page('note', 'q3-launch')
                read = self.owner.get(self.files(page)[html.escape(shown)])
                self.assertIn('text/html , 1,800 bytes', words(read))
                got = self.owner.get(html.unescape(re.search(r'<a href="([^"]+/download/[^"]+)"', read.text).group(1)))
                self.assertEqual(got.body, every_byte)
                self.assertEqual((got['content-type'], got['x-content-type-options']), ('application/octet-stream', 'nosniff'))
                self.assertIn('sandbox', got['content-security-policy'])
                self.assertTrue(got['content-disposition'].startswith("attachment; filename*=UTF-8''"))
        self.assertEqual(self.owner.page('download', 'q3-launch', 'file_none').status, 404)
        self.assertEqual(self.owner.page('download', 'q3-launch').status, 404)

    def test_a_form_with_files_that_is_none_is_refused_by_name_and_too_large_a_file_attaches_nothing(self):
        before = self.owner.page('note', 'q3-launch').text.count('/file/')
        address, _ = self.owner.forms(self.owner.page('note', 'q3-launch'), 'attach_file')[0]
        for kind, body in (('multipart/form-data', b'x'), ('multipart/form-data; boundary=b', b'--b\r\n'),
                           ('multipart/form-data; boundary=b', b'--b\r\n\r\n\r\n--b--\r\n'),
                           ('multipart/form-data; boundary=b', b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--b--'),
                           ('text/plain', b'a=b')):
            with self.subTest(body=body):
                reply = self.owner.post(address, body, {'Content-Type': kind})
                self.assertEqual(reply.status, 400)
                self.assertNotIn('Traceback', reply.text)
        self.assertEqual(self.attach('big', content=b'x' * (note_people.FILE_BYTES + 1)).status, 400)
        self.assertEqual(self.attach(file_text='no name').status, 400)
        self.assertEqual(self.owner.page('note', 'q3-launch').text.count('/file/'), before)

    def test_too_large_a_file_is_refused_in_the_words_of_its_form_and_the_largest_is_taken(self):
        largest = note_people.FILE_BYTES
        for size in (largest + 1, largest * 3 // 2):
            refused = words(self.attach('big', content=b'x' * size))
            self.assertIn(f'File must be at most {largest:,} bytes, not {size:,}.', refused)
        self.assertEqual(self.attach('big', content=b'x' * largest).status, 303)

    def test_what_was_typed_for_a_refused_file_stays_in_its_own_form_and_out_of_the_tab(self):
        refused = self.attach(file_text='typed in vain')
        fields = {verb: self.owner.forms(refused, verb)[0][1] for verb in ('attach_file', 'save_note')}
        self.assertEqual(fields['attach_file']['file_text'], 'typed in vain')
        self.assertNotIn('typed in vain', fields['save_note']['text'])

    def test_a_text_is_attached_as_a_file_and_shown_as_text_whatever_its_type_says(self):
        self.assertEqual(self.attach(name='a <b>.txt', file_text=NASTY).status, 303)
        self.world.click('attach_file', note_id='q3-launch', name='page.html', media_type='text/html',
                         content_base64='PHNjcmlwdD54PC9zY3JpcHQ+', idempotency_key='file-as-page-1')
        self.world.click('attach_file', note_id='q3-launch', name='picture', media_type='image/png',
                         content_base64='/9j/AA==', idempotency_key='file-of-bytes-1')
        page = self.owner.page('note', 'q3-launch')
        shown = {name: self.owner.get(at) for name, at in self.files(page).items()}
        self.assertEqual({one['content-type'] for one in shown.values()}, {'text/html; charset=utf-8'})
        self.assertIn(html.escape(NASTY), shown['a &lt;b&gt;.txt'].text)
        self.assertIn('&lt;script&gt;x&lt;/script&gt;', shown['page.html'].text)
        self.assertIn('It is no text', shown['picture'].text)
        self.assertEqual(self.owner.page('file', 'q3-launch', 'file_none').status, 404)
        at = re.search(r'/file/(q3-launch/[^"]+)"', page.text).group(1).replace('q3-launch', 'q3-checklist')
        self.assertEqual(self.owner.page('file', at).status, 404)


class Decided(Case):
    REPOSITORY = True

    def test_what_was_answered_stays_to_be_read_on_the_repositorys_page_for_whoever_may_answer(self):
        _, token = self.active()
        first, second = self.propose(token), self.propose(token, 'from-a-page-2', message='Second')
        self.assertNotIn(first, self.owner.page('repository', 'site').text)
        self.owner.send(self.owner.page('approval', first), 'decide', 0)
        self.owner.send(self.owner.page('approval', second), 'decide', 1, reason='no')
        page = self.owner.page('repository', 'site')
        self.assertRegex(words(page), 'just now declined Second just now executed State the refund window')
        shown = self.owner.page('approval', first)
        self.assertIn('Approved and carried out. Owner , just now .', words(shown))
        self.assertIn('What was proposed', words(shown))
        self.assertEqual(self.owner.forms(shown, 'decide'), [])
        self.assertNotIn('Decided', Person(self.world, 'aiko').page('repository', 'site').text)


class WhoeverIsShutOut(Case):
    """Of what a person may not see no list and no choice says the name, nor the id, which is made of it."""

    def setUp(self):
        super().setUp()
        for verb, arguments in (
                ('create_project', {'project': 'layoffs', 'name': 'Layoffs'}),
                ('create_channel', {'channel_id': 'rumours', 'name': 'Rumours'}),
                ('create_session', {'session_id': 'payroll', 'name': 'Payroll', 'kind': 'agent'}),
                ('move_item', {'kind': 'note', 'id': 'private-ideas', 'project': 'layoffs'})):
            self.world.click(verb, **arguments)
        self.world.click('set_role', of='mika', kind='note', id='private-ideas', role='editor')
        for kind, one in (('project', 'layoffs'), ('channel', 'rumours'), ('session', 'payroll')):
            self.world.click('set_role', of='mika', kind=kind, id=one, role='none')
        self.mika = Person(self.world, 'mika')

    def names_in(self, person, *at):
        page = person.page(*at)
        self.assertEqual(page.status, 200)
        return set(re.findall('layoffs|rumours|payroll', page.text.lower()))

    def test_an_item_says_that_it_lies_in_a_project_that_he_may_not_see_and_not_that_it_lies_in_none(self):
        at = ('note', 'private-ideas')
        self.assertIn('In Layoffs .', words(self.owner.page(*at)))
        self.assertEqual(self.names_in(self.mika, *at), set())
        self.assertIn('In a project that you may not see.', words(self.mika.page(*at)))
        self.assertNotIn('no assistant sees it', words(self.mika.page(*at)))

    def test_a_connections_page_names_what_he_may_see_and_counts_what_else_it_was_opened_to(self):
        connection, _ = self.active()
        at, everything = ('connection', connection), {'layoffs', 'rumours', 'payroll'}
        self.assertEqual(self.names_in(self.owner, *at), everything)               # as choices
        self.assertEqual(self.names_in(self.mika, *at), set())
        self.assertNotIn('that you may not see', words(self.mika.page(*at)))
        self.world.click('add_to_project', connection=connection, project='layoffs')
        self.world.click('invite', connection=connection, kind='channel', id='rumours', role='member')
        self.world.click('invite', connection=connection, kind='session', id='payroll', role='runner')
        self.assertEqual(self.names_in(self.owner, *at), everything)               # as what it was opened to
        self.assertEqual(self.names_in(self.mika, *at), set())
        self.assertEqual(words(self.mika.page(*at)).count('1 that you may not see'), 3)
        self.assertNotIn('that you may not see', words(self.owner.page(*at)))


class Refused(Case):
    """Nobody types twice: while the storage is busy every form comes back as it was filled in."""
    REPOSITORY = True
    AGAIN = {'second_look'}                                # a second look is taken anew
    SECRET = {'provider_url'}                              # shown to nobody, its writer included

    def filled(self, inner):
        """What a person puts into a form: words into every field for them, a tick into every box."""
        there, typed = fields_of(inner), {}
        for kind, attributes in re.findall('<(input|textarea) ([^>]*)>', inner):
            name = html.unescape(re.search('name="([^"]*)"', attributes).group(1))
            if 'type="checkbox"' in attributes:
                typed[name] = 'yes'
            elif kind == 'textarea' or 'type="text"' in attributes and 'readonly' not in attributes:
                typed[name] = there[name] + ' ' + NASTY
        return typed

    def folded(self, page):
        """Whether what was typed stands where a person must first unfold it."""
        _, opened, inside = page.text[:page.text.index(html.escape(NASTY.split()[0]))].rpartition('<details')
        return bool(opened) and '</details>' not in inside and not inside.startswith(' open')

    def test_every_form_of_every_page_comes_back_as_it_was_filled_in(self):
        connection, token = self.active()
        self.propose(token)
        for number in (1, 2):                              # two forms for the same click on one page
            self.tool(token, 'link_current_chat', project_id='launch-q3', label=f'Chat {number}', idempotency_key=f'a-chat-{number}')
            self.world.click('post_message', channel_id='launch-talk', text='Mine', idempotency_key=f'message-{number}')
        self.world.click('create_project', project='empty', name='Empty')
        busy = mock.Mock(side_effect=versioned.Refusal('storage_busy', 'the storage is busy'))
        seen = set()
        for at, page in self.owner.crawl().items():
            for verb in set(re.findall(r'/do/(\w+)"', page.text)):
                forms = [inner for action, inner in FORM.findall(page.text) if action.endswith('/do/' + verb)]
                for number, typed in enumerate(map(self.filled, forms)):
                    if not typed or verb == 'save_tools':
                        continue
                    with mock.patch.dict(owner.VERBS, {verb: busy}), self.subTest(at=at, verb=verb, number=number):
                        reply = self.owner.send(page, verb, number, **typed)
                        self.assertEqual(reply.status, 503)
                        back = self.owner.forms(reply, verb)
                        for name in set(typed) - self.AGAIN - self.SECRET:
                            self.assertEqual(back[number][1].get(name), typed[name], name)
                        self.assertFalse(self.folded(reply))
                        for other, (_, fields) in enumerate(back):
                            self.assertTrue(other == number or not set(typed.values()) & set(fields.values()))
                        seen.add(verb)
        self.assertLessEqual({'decide', 'create_project', 'create_channel', 'create_note', 'create_repository', 'save_note',
                              'save_article', 'attach_file', 'create_record', 'save_record', 'post_message', 'edit_message',
                              'assign_to_chat', 'add_person', 'add_assistant', 'set_policy'}, seen)


class TwoWorkspaces(Case):
    def test_an_item_and_a_connection_offer_what_lies_in_their_own_workspace_whichever_is_shown(self):
        with self.world.state.db.write() as tx:
            workspace.create_workspace(tx, 'zz-second', 'Zz second', 'owner')
        there = {'workspace': 'zz-second'}
        self.world.click('create_project', project='theirs', name='Theirs', **there)
        self.world.click('create_note', note_id='far', title='Far', project='theirs', tabs=[], **there)
        self.world.click('create_channel', channel_id='far-talk', name='Far talk', **there)
        self.world.click('create_session', session_id='far-run', name='Far run', kind='agent', **there)
        connection = self.world.click('add_assistant', display_name='Far', **there)['connection']
        with self.world.state.db.write() as tx:
            access.attach(tx, connection, 'zz-second', 'owner')
        note = self.owner.page('note', 'far')
        self.assertIn('<bdi>Workspace</bdi>, as', note.text)           # the other one is shown
        self.assertIn('In Theirs .', words(note))
        self.assertNotIn('Launch Q3', words(note))
        self.assertEqual(self.owner.send(self.owner.page('connection', connection), 'invite', 0).status, 303)
        shown = words(self.owner.page('connection', connection))
        for name, here in (('Theirs', True), ('Far talk', True), ('Far run', True), ('Launch Q3', False), ('Press', False)):
            self.assertEqual(name in shown, here, name)


class WhoeverMayOnlyLook(Case):
    REPOSITORY = True

    def test_reads_everything_and_is_offered_nothing_that_would_be_refused(self):
        aiko = Person(self.world, 'aiko')
        for at, shown in (('note/q3-launch', 'embargo date'), ('knowledge_base/support', 'Refund policy'),
                          ('knowledge_base/support/refund-policy', 'within 30 days'), ('channel/launch-talk', 'Three things'),
                          ('record_channel/launch-pages', 'pricing page'), ('record_channel/launch-pages/rec-000001', 'Draft'),
                          ('room/launch-room', 'Apps'), ('repository/site', 'GitNest is on'), ('project/launch-q3', 'Q3 launch')):
            page = aiko.page(at)
            self.assertEqual((page.status, re.findall(r'/do/(\w+)', page.text)), (200, []), at)
            self.assertIn(shown, page.text)
            self.assertNotIn('below.', page.text)

    def test_a_right_to_one_item_shows_its_forms(self):
        self.world.click('set_role', of='aiko', kind='note', id='q3-launch', role='editor')
        aiko = Person(self.world, 'aiko')
        self.assertEqual(aiko.send(aiko.page('note', 'q3-launch'), 'save_note', text='by Aiko').status, 303)

    def test_words_typed_before_the_right_went_are_still_shown(self):
        mika = Person(self.world, 'mika')
        note, article = mika.page('note', 'q3-launch'), mika.page(*AT)
        self.world.click('set_role', of='mika', kind='workspace', id='workspace', role='viewer')
        for page, verb, field in ((note, 'save_note', 'text'), (article, 'save_article', 'content')):
            reply = mika.send(page, verb, **{field: 'words of Mika'})
            self.assertEqual(reply.status, 403)
            self.assertIn('words of Mika', reply.text)


if __name__ == '__main__':
    unittest.main()
