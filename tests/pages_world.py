"""A person's pages, walked through by links and forms as a browser would. Not a test module."""
import html
import re

from tests.signin_world import Browser, World

# Markup, a text that runs backwards, the end of a field, and letters of more than one byte.
NASTY = '<script>alert(1)</script> & "quotes" \'single\' \u202egnp.exe <b>bold</b> \u05e9\u05dc\u05d5\u05dd </textarea> é🚀'
FORM = re.compile(r'<form method="post" action="([^"]+)"(?: enctype="[^"]+")?>(.*?)</form>', re.DOTALL)
BOUNDARY = b'----WebKitFormBoundary4rG7'
INPUT = re.compile(r'<input ([^>]*)>')


class Person(Browser):
    def page(self, *parts):
        """A page by its parts below the person's own path."""
        return self.get(self.home + '/'.join(parts))

    def forms(self, page, verb):
        """The forms of a click on a page, each as (address, fields as they stand)."""
        return [(html.unescape(action), fields_of(inner)) for action, inner in FORM.findall(page.text)
                if action.endswith('/do/' + verb)]

    def send(self, page, verb, number=0, files=None, **fields):
        """Fill in one form of a page and send it; `files`: name -> (file's name, media type, content), '' and b'' for
        a field in which none was chosen."""
        address, there = self.forms(page, verb)[number]
        if files is None:
            return self.post(address, {**there, **fields})
        parts = [(name, '', value.encode()) for name, value in {**there, **fields}.items() if name not in files]
        parts += [(name, f'; filename="{called}"\r\nContent-Type: {kind}', content)
                  for name, (called, kind, content) in files.items()]
        body = b''.join(b'--%b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % (
            BOUNDARY, name.encode(), more.encode(), content) for name, more, content in parts)
        kind = {'Content-Type': 'multipart/form-data; boundary=' + BOUNDARY.decode()}
        return self.post(address, body + b'--%b--\r\n' % BOUNDARY, kind)

    def crawl(self):
        """Every page that links lead to, no downloads: {address: page}."""
        found, waiting = {}, [self.home]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found[at] = page = self.get(at)
                links = [html.unescape(one) for one in re.findall(r'<a href="([^"]+)"', page.text)]
                waiting += [one if one.startswith('/') else at.split('?')[0] + one for one in links
                            if one.startswith((self.home, '?')) and '/download/' not in one]
        return found


def fields_of(inner):
    fields = {}
    for attributes in INPUT.findall(inner):
        name, value = re.search(r'name="([^"]*)"', attributes), re.search(r'value="([^"]*)"', attributes)
        if name and not ('type="checkbox"' in attributes and 'checked' not in attributes):
            fields[html.unescape(name.group(1))] = html.unescape(value.group(1)) if value else ''
    for name, words in re.findall(r'<textarea name="([^"]+)"[^>]*>\n?(.*?)</textarea>', inner, re.DOTALL):
        fields[name] = html.unescape(words)
    for name, options in re.findall(r'<select name="([^"]+)">(.*?)</select>', inner, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)" selected', options) or re.search(r'<option value="([^"]*)"', options)
        fields[html.unescape(name)] = html.unescape(chosen.group(1)) if chosen else ''
    return fields


__all__ = ['NASTY', 'Person', 'World', 'fields_of']
