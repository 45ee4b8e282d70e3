"""Drift is a test (STYLE: headers, rulers, imports, README): a page that no longer says what it is fails here."""
import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = sorted(name for name in os.listdir(TOP) if name.endswith('.py'))
RULERS = ['data', 'rules', 'I/O', 'main']
# Names of the standard library that a page may import; sys.stdlib_module_names came with 3.10.
STDLIB = getattr(sys, 'stdlib_module_names', None)
LONGEST_LINE, LONGEST_FUNCTION, LONGEST_PAGE = 120, 45, 450
OURS = {name[:-3] for name in PAGES}


def text_of(path):
    with open(os.path.join(TOP, path), encoding='utf-8') as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def tree_of(name):
    """As Python 3.9 reads it; a SyntaxError where it cannot."""
    return ast.parse(text_of(name), feature_version=(3, 9))


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split('.')[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split('.')[0]


def readme_commands():
    """The `python3 FILE …` lines of the README's fenced blocks and table cells, without their comments."""
    for line in re.findall(r'(?:^|`|\$ )(python3 [\w./-]+\.py[^`\n]*)', text_of('README.md'), re.MULTILINE):
        yield line.split('  ')[0].split(' #')[0].strip()


def help_of(command):
    """The words that ask this command, or its sub-command, for help."""
    words = command.split()
    verb = [words[2]] if len(words) > 2 and re.fullmatch(r'[a-z][a-z-]*', words[2]) else []
    return (words[1], *verb)


def run_help(asked):
    return subprocess.run([sys.executable, *asked, '--help'], cwd=TOP, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL)


def setUpModule():
    """Each help is a process of its own: they are asked for while the pages are read."""
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    Readme.helps = {asked: pool.submit(run_help, asked) for asked in sorted(set(map(help_of, readme_commands())))}
    pool.shutdown(wait=False)


class Pages(unittest.TestCase):
    def test_every_page_says_first_what_it_is(self):
        for name in PAGES:
            with self.subTest(page=name):
                text = text_of(name)
                self.assertRegex(text.split('\n')[0], r'^"""' + re.escape(name) + r' - \S.*\.$')

    def test_every_page_keeps_the_order_data_rules_io_main(self):
        for name in PAGES:
            with self.subTest(page=name):
                text = text_of(name)
                rulers = re.findall(r'^# --- (\S+) -+$', text, re.MULTILINE)
                self.assertEqual(rulers, [ruler for ruler in RULERS if ruler in rulers])
                self.assertTrue(rulers, 'no ruler at all')

    def test_every_page_parses_as_python_3_9_and_imports_the_standard_library_only(self):
        for name in PAGES:
            with self.subTest(page=name):
                imported = set(imports(tree_of(name)))
                if STDLIB:
                    self.assertEqual(imported - set(STDLIB) - OURS, set())

    def test_every_page_is_read_in_one_sitting(self):
        for name in PAGES:
            with self.subTest(page=name):
                text = text_of(name)
                self.assertLessEqual(text.count('\n'), LONGEST_PAGE, 'cut it along the articles')
                self.assertLessEqual(max(map(len, text.split('\n'))), LONGEST_LINE, 'a line runs out of the window')
                long = [node.name for node in ast.walk(tree_of(name)) if isinstance(node, ast.FunctionDef)
                        and node.end_lineno - node.lineno >= LONGEST_FUNCTION]
                self.assertEqual(long, [], 'a function fits on a screen')

    def test_only_versioned_begins_and_ends_transactions(self):
        for name in PAGES:
            with self.subTest(page=name):
                if name == 'versioned.py' or name.startswith('bench_'):       # a benchmark's bare loop is no product
                    continue
                texts = [node.value for node in ast.walk(tree_of(name))
                         if isinstance(node, ast.Constant) and isinstance(node.value, str)]
                self.assertEqual([text for text in texts if re.match(r'(BEGIN|COMMIT|ROLLBACK)\b', text)], [])

    def test_nothing_happens_at_import(self):
        for name in PAGES:
            with self.subTest(page=name):
                loose = [node.lineno for node in tree_of(name).body if isinstance(node, ast.Expr)
                         and not isinstance(node.value, ast.Constant)]
                self.assertEqual(loose, [])

    def test_no_page_names_a_folder_of_somebodys_machine(self):
        for name in PAGES:
            with self.subTest(page=name):
                text = text_of(name)
                self.assertNotRegex(text, r'(?<![\w.])/(work|root|home|Users)/')


class Readme(unittest.TestCase):
    def test_it_opens_with_the_two_commands(self):
        block = re.search(r'```\w*\n(.*?)```', text_of('README.md'), re.DOTALL).group(1)
        self.assertEqual([line.split('  ')[0].rstrip() for line in block.strip().split('\n')],
                         ['python3 sim.py', 'python3 -m unittest'])

    def test_its_lines_fit_a_window_save_the_rows_of_its_tables(self):
        for name in ('README.md', 'CONTRIBUTING.md'):
            lines = text_of(name).split('\n')
            self.assertLessEqual(len(lines), LONGEST_PAGE, f'{name}: in one sitting')
            long = [line for line in lines if len(line) > LONGEST_LINE and not line.startswith('| ')]
            self.assertEqual(long, [], name)

    def test_every_file_it_names_exists(self):
        for name in set(re.findall(r'`([\w./-]+\.(?:py|md|yml|svg))`', text_of('README.md'))):
            with self.subTest(file=name):
                self.assertTrue(os.path.exists(os.path.join(TOP, name)), f'{name} is named but not there')

    def test_every_command_it_names_is_there_and_its_options_are_in_the_help(self):
        for command in sorted(set(readme_commands())):
            with self.subTest(command=command):
                answer = self.helps[help_of(command)].result()
                self.assertEqual(answer.returncode, 0, answer.stderr)
                for option in re.findall(r'(?<= )--[a-z-]+', command):
                    self.assertIn(option, answer.stdout)

    def rows_to_copy(self):
        table = text_of('README.md').split('## Copy this')[1]
        rows = re.findall(r'^\| [^|]* \| (`[^|]*`) \| (`[^|]*`) \|([^|]*)\|$', table, re.MULTILINE)
        self.assertGreater(len(rows), 8)
        return [(re.findall(r'`(\w+\.py)`', files), functions, besides.strip()) for files, functions, besides in rows]

    def test_what_it_says_to_copy_loads_in_a_folder_of_its_own(self):
        for files, _, besides in self.rows_to_copy():
            if not besides or besides.startswith('`'):         # else the whole house, and the row says so
                with self.subTest(files=files), tempfile.TemporaryDirectory() as folder:
                    for name in (*files, *re.findall(r'`(\w+\.py)`', besides)):
                        shutil.copy(os.path.join(TOP, name), folder)
                    loaded = subprocess.run([sys.executable, '-c', 'import ' + ', '.join(name[:-3] for name in files)],
                                            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
                    self.assertEqual(loaded.stderr, '')

    def test_every_function_it_says_to_copy_stands_in_a_file_of_its_row(self):
        for files, functions, _ in self.rows_to_copy():
            texts = ''.join(map(text_of, files))
            for name in re.findall(r'`(\w+)`', functions):
                with self.subTest(function=name):
                    self.assertTrue(re.search(rf'(?m)^ *(?:def|class) {name}\b', texts), f'not in {files}')


class Figures(unittest.TestCase):
    def test_published_py_lists_every_table_of_every_article(self):
        listed = subprocess.run([sys.executable, 'published.py'], cwd=TOP, text=True, capture_output=True)
        self.assertEqual((listed.returncode, listed.stderr), (0, ''))
        articles = {int(number) for number in re.findall(r'^article (\d):', listed.stdout, re.MULTILINE)}
        self.assertEqual(articles, set(range(1, 8)))

    def test_every_published_table_is_printed_by_some_program(self):
        programs = '\n'.join(text_of(name) for name in PAGES if not name.startswith('published'))
        for name in (page for page in PAGES if page.startswith('published_')):
            for node in tree_of(name).body:
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
                    if isinstance(node.value.func, (ast.Name, ast.Attribute)) and 'Table' in ast.dump(node.value.func):
                        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                        with self.subTest(table=f'{name}: {target.id}'):
                            used = re.search(rf'\b(?:{name[:-3]}|article)\.{target.id}\b', programs)
                            self.assertTrue(used, 'no program prints it')


if __name__ == '__main__':
    unittest.main()
