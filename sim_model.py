"""sim_model.py - the support day of article 1 as it is drawn, and the same day in memory, for the ranges.

Article 1, "La ricostruzione": 400 articles, 120 questions, 300 saves in 8 hours, Zipf 0.9. `draw_day` draws one day
from one seed, sim_store.py plays it through the real store, and `play_in_memory` counts what that must give: a hundred
times faster, held equal to the store by the tests, and so good for the thousands of days behind a range.

    python3 sim.py kb        the tables (sim_kb.py)

Not here: the store (kb_store.py), the printing and the command (sim_kb.py), the closed forms (sim_closed.py).
"""
import math
import random
from bisect import bisect_right
from itertools import accumulate
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

# --- data ---------------------------------------------------------------------

US_AN_HOUR = 3_600_000_000
TOPICS = ('account', 'backups', 'billing', 'devices', 'exports', 'imports', 'invoice', 'licence', 'members', 'refunds',
          'regions', 'reports', 'storage', 'support', 'tickets', 'webhook')           # G = 16, of one width
CONTENT_SHARE, RETITLE_SHARE = 0.85, 0.10                       # of the saves; the rest unpublishes
DELAYS_S = (20, 900, 3600, 14400)                               # question i is edited after DELAYS_S[i mod 4]
HITS_KEPT, SEARCH_LIMIT, POLL_PAGE = 2, 5, 100
SEEDS = (1, 2, 3, 4, 5)
GROUPS = 200                                                    # of five days, for the ranges
SIGMAS_99, SIGMAS_95 = 2.576, 1.960


class Settings(NamedTuple):
    """Article 1's parameters; the command line changes them one by one."""
    articles: int = 400
    questions: int = 120
    saves: int = 300
    hours: int = 8
    zipf: float = 0.9


class Save(NamedTuple):
    at_us: int
    article: int
    kind: str                                                   # content, retitle or unpublish


class Question(NamedTuple):
    at_us: int
    article: int


class Day(NamedTuple):
    settings: Settings
    topics: Sequence[int]                                       # of article 0, 1, 2, ...: the index is the rank
    questions: Sequence[Question]                               # in the order of time, as the saves
    saves: Sequence[Save]
    control_saves: Sequence[Save]                               # at the same times, on any article alike


Moment = Tuple[int, int, object]                                # (at_us, order among equal times, what)
Pair = Tuple[int, int]                                          # (article, version): what one citation names
Counts = Dict[str, int]                                         # 'stale 8': 323


class Sizes(NamedTuple):
    """Bytes of the store's answers as compact JSON; every text of the day has a fixed width, so these are constants."""
    search: int                                                 # a search answer without hits
    hit: int                                                    # each further hit, its comma included
    read: int
    gone: int                                                   # the refusal of a read
    poll: int                                                   # a poll answer without events and without digits
    event: int                                                  # an event without its sequence and type, comma included


SIZES = Sizes(search=14, hit=277, read=1622, gone=102, poll=42, event=93)


# --- rules --------------------------------------------------------------------

def popularity(settings: Settings) -> List[float]:
    """p of article 0, 1, 2, ...: Zipf, 1 / rank ** s."""
    weights = [1 / rank ** settings.zipf for rank in range(1, settings.articles + 1)]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def draw_day(seed: int, settings: Settings) -> Day:
    """One day. The order of the draws decides which day a seed is; in this one seeds 1-5 lie inside every 99 % range.
    Other seeds leave one now and then, as 1 % of so many figures must."""
    draw = random.Random(seed).random
    steps = list(accumulate(popularity(settings)))
    span_us, last = settings.hours * US_AN_HOUR, settings.articles - 1

    def popular(u: float) -> int:
        return min(bisect_right(steps, u), last)
    questions = sorted(Question(int(draw() * span_us), popular(draw())) for _ in range(settings.questions))
    saves, uniform = [], []
    for _ in range(settings.saves):
        at_us, u, v = int(draw() * span_us), draw(), draw()
        kind = 'content' if v < CONTENT_SHARE else 'retitle' if v < CONTENT_SHARE + RETITLE_SHARE else 'unpublish'
        saves.append(Save(at_us, popular(u), kind))
        uniform.append(Save(at_us, int(u * settings.articles), kind))
    topics = [int(draw() * len(TOPICS)) for _ in range(settings.articles)]
    return Day(settings, topics, questions, sorted(saves), sorted(uniform))


def control(day: Day) -> Day:
    return day._replace(saves=day.control_saves)


def moments(day: Day, edits: bool = False) -> List[Moment]:
    """Saves (0), questions (1), hourly checks or edits (2), by time. A question and its edit share an index."""
    asked = [(question.at_us, 1, index) for index, question in enumerate(day.questions)]
    if edits:
        last = [(question.at_us + delay_s(index) * 1_000_000, 2, index) for index, question in enumerate(day.questions)]
    else:
        last = [(hour * US_AN_HOUR, 2, hour) for hour in range(1, day.settings.hours + 1)]
    saves = [(save.at_us, 0, index) for index, save in enumerate(day.saves)]
    return sorted(saves + asked + last)


def delay_s(question: int) -> int:
    return DELAYS_S[question % len(DELAYS_S)]


class World:
    """The knowledge base without its texts: the version, title and state of each article now."""

    def __init__(self, day: Day) -> None:
        count = day.settings.articles
        self.topics = day.topics
        self.version, self.title, self.published = [0] * count, [0] * count, [True] * count
        self.of_topic: List[List[int]] = [[] for _ in TOPICS]           # published, by id: how one word ranks
        for article, topic in enumerate(day.topics):
            self.of_topic[topic].append(article)
        self.first = self.sequence = count                              # creation wrote an event each
        self.log: List[str] = []                                        # the day's event types

    def save(self, save: Save) -> None:
        """Every save is a version and an event; one to an unpublished article is an edit of a draft."""
        article, leaves = save.article, save.kind == 'unpublish' and self.published[save.article]
        self.move(article, 'retitled' if save.kind == 'retitle' else 'unpublished' if leaves else 'updated')
        if save.kind == 'retitle':
            self.title[article] = self.sequence
        elif leaves:
            self.published[article] = False
            self.of_topic[self.topics[article]].remove(article)

    def move(self, article: int, event: str) -> None:
        self.sequence += 1
        self.version[article] = self.sequence
        self.log.append(event)

    def search(self, article: int) -> List[Pair]:
        """The hits kept, by the article's own title: itself if published (two words match), then its topic by id."""
        hits = [article] if self.published[article] else []
        for other in self.of_topic[self.topics[article]][:HITS_KEPT + 1]:
            if other != article:
                hits.append(other)
        return [(hit, self.version[hit]) for hit in hits[:HITS_KEPT]]


def play_in_memory(day: Day) -> Counts:
    """The day with hourly checks: the counts that sim_store.play_in_store takes from the store."""
    counts: Counts = {}
    for counts in hours_in_memory(day):
        pass
    return counts


def hours_in_memory(day: Day) -> Iterator[Counts]:
    """The counts so far after each check."""
    world, counts = World(day), {}
    answers: List[List[Pair]] = []
    titles: Dict[Pair, int] = {}                                        # each citation -> the title it was given under
    polled = 0
    for _, kind, index in moments(day):
        if kind == 0:
            world.save(day.saves[index])
        elif kind == 1:
            answers.append(world.search(day.questions[index].article))
            titles.update((pair, world.title[pair[0]]) for pair in answers[-1])
        else:
            count_stale(world, answers, titles, index, counts)
            count_costs(world, titles, polled, counts)
            polled = len(world.log)
            yield dict(counts)


def count_stale(world: World, answers: List[List[Pair]], titles: Dict[Pair, int], hour: int, counts: Counts) -> None:
    """Stale: the article has another version now. Its title alone tells only if it went or has another title."""
    version, published, title = world.version, world.published, world.title
    stale = {pair for pair in titles if version[pair[0]] != pair[1]}
    by_title = [pair for pair in stale if not published[pair[0]] or title[pair[0]] != titles[pair]]
    each = [sum(pair in stale for pair in answer) for answer in answers]
    counts[f'answers {hour}'], counts[f'citations {hour}'] = len(answers), sum(map(len, answers))
    counts[f'stale {hour}'], counts[f'stale each {hour}'] = len(stale), sum(each)
    counts[f'answers stale {hour}'], counts[f'by title {hour}'] = len(each) - each.count(0), len(by_title)


def count_costs(world: World, titles: Dict[Pair, int], polled: int, counts: Counts) -> None:
    """Calls and bytes of the three ways to check, each over all that was cited so far."""
    articles = {article for article, _ in titles}
    searches = {(article, shown) for (article, _), shown in titles.items()}
    hits = [min(SEARCH_LIMIT, len(world.of_topic[world.topics[article]])) for article, _ in searches]
    readable = sum(world.published[article] for article in articles)
    pages, poll = poll_costs(world, polled)
    for name, amount in (
            ('search calls', len(searches)),
            ('search bytes', SIZES.search * len(searches) + SIZES.hit * sum(hits) - len([1 for each in hits if each])),
            ('read calls', len(articles)),
            ('read bytes', SIZES.read * readable + SIZES.gone * (len(articles) - readable)),
            ('poll calls', pages), ('poll bytes', poll)):
        counts[name] = counts.get(name, 0) + amount


def poll_costs(world: World, polled: int) -> Tuple[int, int]:
    """(calls, bytes) of reading the log from a cursor to its end, page by page."""
    calls, size, end = 0, 0, len(world.log)
    while calls == 0 or polled < end:
        page = world.log[polled:polled + POLL_PAGE]
        size += sum(SIZES.event + len(event) + len(str(world.first + polled + place))
                    for place, event in enumerate(page, 1))
        calls, polled = calls + 1, polled + len(page)
        # the first event of a page has no comma, and has_more is true or false
        size += SIZES.poll + len(str(world.first + polled)) + len('true' if polled < end else 'false') - bool(page)
    return calls, size


def play_edits_in_memory(day: Day) -> Counts:
    """After question i Claude edits its first citation, delay_s(i) later; refused, it reads and writes again."""
    world, counts = World(day), {}
    cited: Dict[int, List[Pair]] = {}
    for _, kind, index in moments(day, edits=True):
        if kind == 0:
            world.save(day.saves[index])
        elif kind == 1:
            cited[index] = world.search(day.questions[index].article)[:1]
        else:
            for article, version in cited[index]:
                outcome = ('gone' if not world.published[article] else
                           'saved' if world.version[article] == version else 'changed')
                if outcome != 'gone':
                    world.move(article, 'updated')
                name = f'{outcome} {delay_s(index)}'
                counts[name] = counts.get(name, 0) + 1
    return counts


def add_up(days: Sequence[Counts]) -> Counts:
    total: Counts = {}
    for counts in days:
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return total
