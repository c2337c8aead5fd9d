"""Who is let in, and what a page may load."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from werkzeug.test import Client

from depthscope.app import create_app
from tests.figures.runs import record

LOCAL = {"Host": "127.0.0.1:8050"}
ASK = {
    "output": "catalogue.data",
    "outputs": {"id": "catalogue", "property": "data"},
    "inputs": [{"id": "poll", "property": "n_intervals", "value": 1}],
    "changedPropIds": ["poll.n_intervals"],
}


@pytest.fixture(scope="module")
def client(root: Path) -> Client:
    return create_app(root).server.test_client()


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8050", "localhost:9999", "LOCALHOST", "[::1]:8050", "localhost."]
)
def test_loopback_names_are_answered_at_any_port(client: Client, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "192.0.2.7", "[bad", "", "a@b"],
)
@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/assets/state.js", "/tokens.css"])
def test_a_foreign_host_is_refused_everywhere(client: Client, host: str, path: str) -> None:
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 403
    assert b"does not answer" in answer.data


def test_a_page_from_elsewhere_is_refused(client: Client) -> None:
    def ask(**headers: str) -> int:
        return client.post("/_dash-update-component", json=ASK, headers={**LOCAL, **headers}).status_code

    assert ask(Origin="http://127.0.0.1:8050") == 200
    assert ask(Origin="https://evil.example") == 403
    assert ask(Origin="null") == 403
    assert ask(**{"Sec-Fetch-Site": "cross-site"}) == 403


def test_beyond_loopback_the_token_opens_the_door_once_and_a_cookie_keeps_it_open(root: Path) -> None:
    app = create_app(root, host="0.0.0.0")
    token = app.server.config["DEPTHSCOPE_TOKEN"]
    visitor = app.server.test_client()
    headers = {"Host": "192.0.2.7:8050"}
    assert visitor.get("/", headers=headers).status_code == 403
    assert visitor.get("/?token=wrong", headers=headers).status_code == 403
    assert visitor.post("/_dash-update-component", json=ASK, headers=headers).status_code == 403
    opened = visitor.get(f"/depth?token={token}&step=3", headers=headers)
    assert opened.status_code == 302
    assert opened.headers["Location"] == "/depth?step=3"
    cookie = opened.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert visitor.get("/", headers=headers).status_code == 200
    assert visitor.get("/", headers={"Host": "evil.example"}).status_code == 403, "rebinding needs a name"


def test_the_redirect_with_the_token_stays_here(root: Path) -> None:
    visitor = create_app(root, token="a-token-of-sufficient-length").server.test_client()
    query = "token=a-token-of-sufficient-length"
    path = {"PATH_INFO": "//evil.example/x"}
    answer = visitor.get("/", query_string=query, headers=LOCAL, environ_overrides=path)
    assert answer.headers["Location"] == "/evil.example/x"


def test_a_token_given_on_loopback_is_asked_for(root: Path) -> None:
    app = create_app(root, token="a-token-of-sufficient-length")
    assert app.server.test_client().get("/", headers=LOCAL).status_code == 403
    with pytest.raises(ValueError, match="expected at least 16"):
        create_app(root, token="short")


def test_a_further_name_can_be_allowed(root: Path) -> None:
    visitor = create_app(root, allow_hosts=["hub.example.org"]).server.test_client()
    assert visitor.get("/", headers={"Host": "hub.example.org"}).status_code == 200


def test_the_policy_lets_only_our_scripts_run(client: Client) -> None:
    answer = client.get("/", headers=LOCAL)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    scripts = policy["script-src"].split()
    assert "'unsafe-inline'" not in scripts
    assert "'unsafe-eval'" not in scripts
    page = answer.get_data(as_text=True)
    inline = re.findall(r"<script(?![^>]*src=)(?![^>]*application/json)[^>]*>(.*?)</script>", page, re.DOTALL)
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in inline
    }
    assert hashes == set(scripts) - {"'self'"}
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page), "nothing comes from elsewhere"


def test_no_answer_holds_a_path(client: Client, root: Path) -> None:
    for path in ("/", "/_dash-layout", "/_dash-dependencies"):
        assert str(root) not in client.get(path, headers=LOCAL).get_data(as_text=True)
    assert str(root) not in client.post("/_dash-update-component", json=ASK, headers=LOCAL).get_data(
        as_text=True
    )


def test_a_link_that_leaves_the_root_is_refused_and_named(tmp_path: Path) -> None:
    outside = record(tmp_path / "outside" / "secret")
    served = tmp_path / "served"
    (served / "half").mkdir(parents=True)
    (served / "whole").symlink_to(outside)
    (served / "half" / "run.json").write_bytes((outside / "run.json").read_bytes())
    (served / "half" / "rank00000").symlink_to(outside / "rank00000")
    visitor = create_app(served).server.test_client()
    (half,) = visitor.post("/_dash-update-component", json=ASK, headers=LOCAL).json["response"]["catalogue"][
        "data"
    ]["runs"]
    assert half["problem"] == "half/rank00000 is a link that leaves the folder served"
    assert half["last_step"] is None


NONSENSE = (
    b"",
    b"[]",
    b"{}",
    b"not json",
    b'{"output": "nothing.children"}',
    b'{"output": 3, "inputs": []}',
    b'{"output": "catalogue.data"}',
    b'{"output": "catalogue.data", "inputs": [1], "outputs": {"id": "catalogue", "property": "data"}}',
    b'{"output": "catalogue.data", "inputs": [{"id": "poll", "property": "n_intervals"}], "outputs": 5}',
    b'{"output": "catalogue.data", "inputs": [{"id": "search", "property": "value"}], "outputs": []}',
)


@pytest.mark.parametrize("body", NONSENSE)
def test_a_question_that_makes_no_sense_is_a_bad_request(root: Path, body: bytes) -> None:
    client = create_app(root).server.test_client()
    headers = {"Host": "127.0.0.1", "Content-Type": "application/json"}
    answer = client.post("/_dash-update-component", data=body, headers=headers)
    assert (answer.status_code, answer.mimetype) == (400, "text/plain")
    assert answer.text.startswith("Bad request: ")


def test_a_question_of_the_page_is_answered(root: Path) -> None:
    client = create_app(root).server.test_client()
    body = {
        "output": "catalogue.data",
        "outputs": {"id": "catalogue", "property": "data"},
        "inputs": [{"id": "poll", "property": "n_intervals", "value": 1}],
        "changedPropIds": ["poll.n_intervals"],
    }
    answer = client.post("/_dash-update-component", json=body, headers={"Host": "127.0.0.1"})
    assert len(answer.json["response"]["catalogue"]["data"]["runs"]) == 3
