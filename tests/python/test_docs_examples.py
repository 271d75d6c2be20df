"""The pages of docs/examples that need no large library print what they say."""

import re

import example_pages as pages
import pytest

LIGHT = [name for name in pages.NAMES if pages.blocks(name, "python") and not pages.needs(name)]


@pytest.mark.parametrize("name", LIGHT)
def test_a_page_prints_what_it_says(name, folder):
    pages.check(name, folder)


def test_every_page_is_in_the_list():
    listed = re.findall(r"\]\(([^)]+\.md)\)", pages.text("README.md"))
    assert sorted(listed) == [name for name in pages.NAMES if name != "README.md"]
