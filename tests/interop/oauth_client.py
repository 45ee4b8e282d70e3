"""Run by the judges' interpreter: a client of the field signs in by itself, then reads, writes and steps up.

    python oauth_client.py mcp|fastmcp URL CALLS       CALLS: JSON [[name, arguments], ...]

It prints {"visit": URL} for its person; `mcp` gets the callback's address as a line back, `fastmcp` listens for it.
"""
import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit


def say(**what):
    print(json.dumps(what), flush=True)


class Storage:
    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def with_mcp(url, calls):
    from mcp import Client
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client
    from mcp.shared.auth import OAuthClientMetadata

    async def visit(address):
        say(visit=address)

    async def callback():
        answer = parse_qs(urlsplit(await asyncio.to_thread(sys.stdin.readline)).query)
        return AuthorizationCodeResult(code=answer['code'][0], state=answer['state'][0], iss=answer['iss'][0])
    metadata = OAuthClientMetadata(client_name='Claude by mcp', redirect_uris=['http://127.0.0.1:5555/callback'],
                                   grant_types=['authorization_code', 'refresh_token'], response_types=['code'])
    auth = OAuthClientProvider(url, metadata, Storage(), visit, callback)
    async with create_mcp_http_client(auth=auth) as http, Client(streamable_http_client(url, http_client=http)) as client:
        tools = await client.list_tools()
        results = [await client.call_tool(*call) for call in calls]
        return len(tools.tools), [(one.is_error, one.structured_content) for one in results]


async def with_fastmcp(url, calls):
    from fastmcp import Client
    from fastmcp.client.auth import OAuth

    class Told(OAuth):
        async def redirect_handler(self, authorization_url):
            say(visit=authorization_url)
    async with Client(url, auth=Told(client_name='Claude by fastmcp')) as client:
        tools = await client.list_tools()
        results = [await client.call_tool(*call, raise_on_error=False) for call in calls]
        return len(tools), [(one.is_error, one.structured_content) for one in results]


def main(argv):
    which, url, calls = argv[0], argv[1], json.loads(argv[2])
    tools, results = asyncio.run({'mcp': with_mcp, 'fastmcp': with_fastmcp}[which](url, calls))
    say(tools=tools, results=results)


if __name__ == '__main__':
    main(sys.argv[1:])
