"""Who may talk to the app: names it answers to, a token beyond loopback, and what its pages may load.

Dash answers any Host header, so a page elsewhere could reach it by DNS rebinding. Here every request must
name a host from the allow-list, in Host and in Origin; with an address other than loopback it must also
carry the token, once in the printed address and from then on in a cookie that scripts cannot read.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

import flask
from dash import Dash
from werkzeug.wrappers import Response

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who is let in."""

    hosts: frozenset[str]
    """Names, lower case and without port, that requests may be addressed to."""
    any_address: bool = False
    """Let any literal IP address through: rebinding needs a name, an address cannot be rebound."""
    token: str | None = None

    def allows(self, host: str) -> bool:
        """Return whether `host` (a name or address, with or without port) is one of ours."""
        name = _name_of(host)
        return bool(name) and (name in self.hosts or (self.any_address and _is_address(name)))


def cookie_name(token: str) -> str:
    """Return the cookie's name, one per token: cookies know no ports, and two servers may share a name."""
    return f"depthscope_{hashlib.sha256(token.encode()).hexdigest()[:8]}"


def is_loopback(host: str) -> bool:
    """Return whether `host` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def access_for(host: str, *, token: str | None = None, allow_hosts: Iterable[str] = ()) -> Access:
    """Return the rules for a server bound to `host`; beyond loopback a token is made when none is given.

    ValueError for a token that would not survive an address (letters, digits, - and _ do).
    """
    if token is not None and (len(token) < 16 or not token.replace("-", "").replace("_", "").isalnum()):
        raise ValueError(
            f"the token has {len(token)} characters; expected at least 16 of letters, digits, - and _, "
            f"for example {secrets.token_urlsafe(24)}"
        )
    extra = frozenset(_name_of(name) for name in allow_hosts)
    if is_loopback(host):
        return Access(hosts=_LOOPBACK_NAMES | extra | {host.strip("[]").lower()}, token=token)
    names = {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()} | _LOOPBACK_NAMES | extra
    return Access(hosts=frozenset(names), any_address=True, token=token or secrets.token_urlsafe(24))


def protect(app: Dash, access: Access, prefix: str) -> None:
    """Check every request against `access` and put the headers on every response."""
    policy = _policy(app)

    def refuse_strangers() -> Response | None:
        request = flask.request
        if not access.allows(request.host):
            return _refusal(
                f"This server does not answer to the name {_name_of(request.host)!r}.\n"
                "If the name is yours, start it with: depthscope serve ROOT --allow-host NAME\n"
            )
        origin = request.headers.get("Origin")
        if origin is not None and not access.allows(urlsplit(origin).netloc):
            return _refusal("This server does not answer to pages from elsewhere.\n")
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method != "GET":
            return _refusal("This server does not answer to pages from elsewhere.\n")
        return None if access.token is None else _check_token(access.token, prefix)

    def add_headers(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["X-Frame-Options"] = "SAMEORIGIN"
        return response

    app.server.before_request(refuse_strangers)
    app.server.after_request(add_headers)


def _policy(app: Dash) -> str:
    """Scripts come from here or are the two of Dash whose hashes are known; nothing leaves this origin.

    Plotly writes style elements and shows maps as data: images.
    """
    scripts = " ".join(["'self'", *app.csp_hashes()])
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'self'",
        )
    )


def _check_token(token: str, prefix: str) -> Response | None:
    """Let a request with the cookie pass; turn the token in an address into the cookie."""
    request = flask.request
    if hmac.compare_digest(request.cookies.get(cookie_name(token), "").encode(), token.encode()):
        return None
    given = request.args.get("token", "")
    if request.method != "GET" or not hmac.compare_digest(given.encode(), token.encode()):
        return _refusal("This server needs its token: open the address that it printed at the start.\n")
    rest = "&".join(
        part for part in request.query_string.decode().split("&") if not part.startswith("token=")
    )
    place = prefix + request.path.lstrip("/")
    response: Response = flask.redirect(place + (f"?{rest}" if rest else ""))
    response.set_cookie(cookie_name(token), token, httponly=True, samesite="Strict", path=prefix)
    return response


def _refusal(text: str) -> Response:
    return Response(text, status=403, mimetype="text/plain")


def _name_of(host: str) -> str:
    """Return the name in ``name:port`` or ``[address]:port``, lower case; empty for what is neither."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
