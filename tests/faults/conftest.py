"""Ranks are launched once for the tests of tests/ranks and for these."""

from tests.ranks.conftest import troubled, two_ranks

__all__ = ["troubled", "two_ranks"]
