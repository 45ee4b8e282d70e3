"""schema.py - the small JSON Schema checker that every tool's arguments pass before anything else looks at them.

Article 1 publishes the schemas ("query": 2 to 200 characters, "limit": 1 to 20); a model that gets them wrong must
read which argument and which limit. Only the keywords below exist here, and every schema of the catalogue uses no
others (a test).

Not here: what the arguments mean (the stores), the catalogue itself (tools.py, catalogue.py).
"""
import math
import re
from typing import Any, Dict

from versioned import invalid, is_text

# --- data ---------------------------------------------------------------------

CHECKED = frozenset(('type', 'properties', 'required', 'additionalProperties', 'minProperties', 'maxProperties', 'enum',
                     'minLength', 'maxLength', 'pattern', 'minimum', 'maximum', 'items', 'minItems', 'maxItems'))
ANNOTATIONS = frozenset(('description', 'default', 'format'))         # said to the model, checked nowhere
INTEGERS = (-2 ** 63, 2 ** 63 - 1)        # what a column holds
DEPTH = 32                                # of objects and arrays in each other; our own schemas need five

# JSON's types as Python has them. true is an int in Python and no integer in JSON: so exact types, never isinstance.
TYPES: Dict[str, tuple] = {'object': (dict,), 'array': (list,), 'string': (str,), 'integer': (int,),
                           'number': (int, float), 'boolean': (bool,), 'null': (type(None),)}


# --- rules --------------------------------------------------------------------

def check(schema: dict, value: Any, path: str = 'arguments', depth: int = 0) -> None:
    """Raise Refusal invalid_argument with `field` (its path) and `limit` unless `value` keeps to `schema`."""
    if depth > DEPTH:
        raise invalid(path, f'nested at most {DEPTH} deep')
    check_type(schema, value, path)
    if 'enum' in schema and value not in schema['enum']:
        raise invalid(path, 'one of ' + ', '.join(map(str, schema['enum'])))
    if isinstance(value, dict):
        check_object(schema, value, path, depth)
    elif isinstance(value, list):
        check_array(schema, value, path, depth)
    elif isinstance(value, str):
        check_string(schema, value, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        check_number(schema, value, path)


def check_type(schema: dict, value: Any, path: str) -> None:
    wanted = schema.get('type')
    if wanted is None:
        return
    names = [wanted] if isinstance(wanted, str) else wanted
    if not any([type(value) in TYPES[name] for name in names]):
        raise invalid(path, ' or '.join(f'an {name}' if name[0] in 'aio' else f'a {name}' for name in names))


def check_object(schema: dict, value: dict, path: str, depth: int) -> None:
    properties, extra = schema.get('properties', {}), schema.get('additionalProperties', True)
    for name in schema.get('required', ()):
        if name not in value:
            raise invalid(join(path, name), 'given: it is required')
    between('members', len(value), schema.get('minProperties'), schema.get('maxProperties'), path)
    for name, member in value.items():
        if name in properties:
            check(properties[name], member, join(path, name), depth + 1)
        elif not is_text(name):
            raise invalid(path, 'an object whose names are text: no NUL, no lone surrogate')
        elif extra is False:
            raise invalid(join(path, name[:64]), 'left out: the arguments are ' + (', '.join(properties) or 'none'))
        else:
            check({} if extra is True else extra, member, join(path, name[:64]), depth + 1)


def check_array(schema: dict, value: list, path: str, depth: int) -> None:
    between('elements', len(value), schema.get('minItems'), schema.get('maxItems'), path)
    for index, element in enumerate(value):
        check(schema.get('items', {}), element, f'{path}[{index}]', depth + 1)


def check_string(schema: dict, value: str, path: str) -> None:
    if not is_text(value):
        raise invalid(path, 'text: no NUL, no lone surrogate')
    between('characters', len(value), schema.get('minLength'), schema.get('maxLength'), path)
    # fullmatch: `$` alone also matches before a last newline. Our patterns are anchored for clients that search.
    if 'pattern' in schema and not re.fullmatch(schema['pattern'], value, re.ASCII):
        raise invalid(path, 'of the form ' + schema['pattern'])


def check_number(schema: dict, value: Any, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise invalid(path, 'a finite number')
    least, most = INTEGERS if isinstance(value, int) else (-math.inf, math.inf)
    least, most = max(least, schema.get('minimum', least)), min(most, schema.get('maximum', most))
    if not least <= value <= most:
        raise invalid(path, f'from {least} to {most}')


def between(unit: str, count: int, least: Any, most: Any, path: str) -> None:
    if least is not None and count < least:
        raise invalid(path, f'at least {least} {unit}, not {count}')
    if most is not None and count > most:
        raise invalid(path, f'at most {most} {unit}, not {count}')


def join(path: str, name: str) -> str:
    """The path as a model writes it: the top level's own name is left out."""
    return name if path == 'arguments' else f'{path}.{name}'
