"""The pages of docs/examples that need a large library print what they say, where it is there."""

import importlib.util

import example_pages as pages
import pytest


@pytest.mark.parametrize("name", [name for name in pages.NAMES if pages.needs(name)])
def test_a_page_prints_what_it_says(name, folder):
    for library in pages.needs(name):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not here")
    pages.check(name, folder)
