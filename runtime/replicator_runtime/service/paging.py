"""Long lists in parts: the response is a JSON array, and `Link: <…>; rel="next"` names what follows (RFC 8288)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import Query, Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ItemT = TypeVar("ItemT")
Limit = Annotated[int, Query(ge=1, le=1000, description="So many at most.")]
After = Annotated[str | None, Query(max_length=1024, description="Those after this one; of a `Link` header.")]


def page(
    request: Request, response: Response, items: Sequence[ItemT], key: Callable[[ItemT], str], limit: int
) -> Sequence[ItemT]:
    """The first `limit` of `items`, and the link to those that follow.

    Args:
        request: That was answered.
        response: Gets the link.
        items: After the one that was asked for, in order; one more than `limit` when there are more.
        key: By which `after` names an item.
        limit: So many at most.
    """
    shown = items[:limit]
    if len(items) > limit:
        link(request, response, after=key(shown[-1]), limit=limit)
    return shown


def link(request: Request, response: Response, **query: object) -> None:
    """Name what follows: the request's own address with these values in its query."""
    following = request.url.include_query_params(**query)
    response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
