"""The address holds the whole state: back and forward restore it, and what it asks for in vain is named."""

from __future__ import annotations

import pytest

from tests.app.page import AppPage

pytestmark = pytest.mark.browser


def notice(page: AppPage) -> str:
    page.until("() => document.getElementById('toast').innerText !== ''")
    return page.page.locator("#toast span").inner_text()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("depth?metric=stat_rms", "No quantity “stat_rms”: State, typical token is shown."),
        ("nowhere", "No page “nowhere”: Overview is shown."),
        ("depth?mode=cubic", "No mode “cubic”: Absolute is shown."),
        ("depth?step=abc", "No step “abc”: the newest is shown."),
        ("depth?step=5000", "No step 5,000 yet: the last, 300, is shown."),
        ("depth?pins=10,x", "No step “x” to pin."),
        ("depth?base=zz", "No baseline “zz”: the first selected run takes its place."),
        ("paths?top=13", "No top “13”: top 12 is shown."),
        ("overview?sort=-size", "No column “-size”: rows stand as in the drawer."),
        ("depth?stpe=10", "Nothing here is called “stpe”."),
    ],
)
def test_what_is_not_there_is_named_with_what_is_shown_instead(
    page: AppPage, address: str, asked: str, told: str
) -> None:
    page.open(f"{address}{asked}")
    assert notice(page) == told
    page.page.get_by_role("button", name="Close").last.click()
    page.until("() => document.getElementById('toast').innerText === ''")


def test_of_several_runs_the_known_ones_are_shown_and_the_others_named(page: AppPage, address: str) -> None:
    page.open(address)
    plain = page.ids()["plain"]
    page.open(f"{address}depth?runs={plain},1234567890")
    assert notice(page) == "No run “1234567890”: the other is shown."
    assert page.state()["runs"] == ["plain"]
    assert f"runs={plain}&" in page.page.url


def test_an_address_that_can_be_shown_says_nothing(page: AppPage, address: str) -> None:
    page.open(f"{address}depth?metric=write_rms&mode=ratio&step=100&pins=10,50&scale=linear&range=own")
    assert page.page.locator("#toast").inner_text() == ""


def test_back_restores_the_whole_state_and_forward_returns(page: AppPage, address: str) -> None:
    page.open(f"{address}depth")
    history = page.page.evaluate("() => history.length")
    page.page.locator('[data-value="ratio"]').click()
    page.page.keyboard.press("ArrowLeft")
    page.wait_step(290)
    page.page.keyboard.press("p")
    page.settle()
    assert page.page.evaluate("() => history.length") == history, "only pages are places to go back to"
    left = page.page.url
    page.page.get_by_role("link", name="Block boundaries").click()
    page.settle()
    assert page.page.evaluate("() => history.length") == history + 1
    page.page.keyboard.press("Home")
    page.page.keyboard.press("p")
    page.page.evaluate("() => depthscope.change({ mode: 'absolute', base: depthscope.catalogue.runs[1].id })")
    page.page.go_back()
    page.settle()
    page.wait_step(290)
    assert page.page.url == left
    state = page.state()
    assert (state["page"], state["mode"], state["pins"]) == ("depth", "ratio", [290])
    assert state["base"] == page.ids()["plain"], "nothing of the page that was left stays"
    page.page.go_forward()
    page.until("() => depthscope.page === 'boundaries'")
    page.settle()
    assert (page.state()["shownStep"], page.state()["pins"]) == (0, [0, 290])


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("abc", "“abc” is no step: type a whole number from 0 to 300."),
        ("12x", "“12x” is no step: type a whole number from 0 to 300."),
        ("-5", "“-5” is no step: type a whole number from 0 to 300."),
    ],
)
def test_what_is_no_step_is_refused_and_taken_back(
    page: AppPage, address: str, typed: str, told: str
) -> None:
    page.open(f"{address}depth?step=100")
    box = page.page.locator("#step-input")
    box.fill(typed)
    box.press("Enter")
    assert notice(page) == told
    page.until("() => document.getElementById('step-input').value === '100'")
    assert page.state()["shownStep"] == 100


def test_a_step_past_the_end_is_the_last_one_and_that_is_said(page: AppPage, address: str) -> None:
    page.open(f"{address}depth?step=100")
    box = page.page.locator("#step-input")
    box.fill("4,000")
    box.press("Enter")
    assert notice(page) == "There is no step 4,000 yet: the last is 300."
    page.wait_step(300)
    assert box.input_value() == "300"


def test_what_was_typed_and_not_entered_is_taken_back(page: AppPage, address: str) -> None:
    page.open(f"{address}depth?step=100")
    page.page.locator("#step-input").fill("777")
    page.page.locator("#search").focus()
    page.until("() => document.getElementById('step-input').value === '100'")
