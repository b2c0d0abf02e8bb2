"""Other people's texts in HTML: shown as they are, doing nothing."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from kalends.core.markup import Markup, element, safe, table

HOSTILE = st.text() | st.sampled_from(
    [
        "<script>alert(1)</script>",
        "\"'><img src=x onerror=alert(1)>",
        "a\u202eb\u2066c",
        "&lt;b&gt;",
    ]
)


class Reader(HTMLParser):
    """What a browser makes of it: the elements, their attributes, and the texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [name for name, _ in attributes]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.lists(st.lists(HOSTILE, min_size=2, max_size=2), max_size=4))
def test_no_text_becomes_an_element_or_an_attribute(rows: list[list[str]]) -> None:
    read = Reader(table(("one", "other"), rows))
    assert read.elements.count("td") == 2 * len(rows)
    assert set(read.elements) <= {"table", "thead", "tbody", "tr", "th", "td"}
    assert set(read.attributes) == {"style"}


@given(HOSTILE)
def test_an_attribute_stays_one(text: str) -> None:
    read = Reader(element("span", "x", title=text))
    assert (read.elements, read.attributes, read.texts) == (["span"], ["title"], ["x"])


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"])))
def test_what_nobody_sees_is_named_by_its_number(text: str) -> None:
    assert safe(text).isascii()
    assert safe(text).count("\\") == len(text)


@given(st.text())
def test_what_is_safe_already_stays_as_it_is(text: str) -> None:
    assert safe(safe(text)) == safe(text)
    assert safe(Markup("<b>")) == "<b>"
