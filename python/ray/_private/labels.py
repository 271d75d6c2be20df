"""Labels of nodes, and selectors of them, as texts for the core (src/sched/selector.h)."""

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_MORE = frozenset("-_./")


def _is_name(text):
    return isinstance(text, str) and all(letter in _LETTERS or letter in _MORE for letter in text)


def _check_key(key):
    if not _is_name(key) or not key:
        raise ValueError(
            f"a label's key must be a str of letters, digits and -_./ only, unlike {key!r}"
        )
    return key


def _check_value(key, value):
    if not _is_name(value):
        raise ValueError(
            f"the value of the label {key!r} must be a str of letters, digits and -_./ only, unlike "
            f"{value!r}"
        )
    return value


def node_labels(given) -> str:
    """What `ray.init(labels=)` gives a node."""
    if given is None:
        return ""
    if not isinstance(given, dict):
        raise TypeError(f"labels must be a dict of keys and values, not {type(given).__name__}")
    for key in given:
        if isinstance(key, str) and key.startswith("ray.io/node-id"):
            raise ValueError("the label ray.io/node-id is the node's own and can't be given")
    return ",".join(
        [f"{_check_key(key)}={_check_value(key, value)}" for key, value in given.items()]
    )


def from_text(text: str) -> dict:
    """The labels of "key=value,key=value"."""
    found = {}
    for part in text.split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"labels are written key=value,key=value; {part!r} has no '='")
        found[_check_key(key.strip())] = _check_value(key, value.strip())
    return found


def term(key: str, wanted: bool, values) -> str:
    """A label that must, or must not, have one of these values."""
    checked = [_check_value(key, value) for value in values]
    return f"{_check_key(key)}{'=' if wanted else '!='}{';'.join(checked)}"


def selector(given) -> str:
    """The text of a label_selector: {"key": "value"}, with "!value", "in(a, b)" and "!in(a, b)" for
    values.
    """
    if not isinstance(given, dict):
        raise TypeError(f"a label selector must be a dict, not {type(given).__name__}")
    terms = []
    for key, value in given.items():
        if not isinstance(value, str):
            raise ValueError(
                f"the value of {key!r} in a label selector must be a str, not "
                f"{type(value).__name__}"
            )
        wanted = not value.startswith("!")
        text = value if wanted else value[1:]
        if text.startswith("in(") and text.endswith(")"):
            values = [part.strip() for part in text[3:-1].split(",")]
        else:
            values = [text]
        terms.append(term(key, wanted, values))
    return "&".join(terms)
