"""Starts postgres-mcp, which asks for Python 3.12, also under 3.11: of 3.12 it needs one name."""

import asyncio
import typing

import typing_extensions

if not hasattr(typing, "override"):
    typing.override = typing_extensions.override

from postgres_mcp.server import main  # noqa: E402

asyncio.run(main())
