"""Run by the judges' interpreter: one client of the field lists our tools and calls three of them, and prints JSON.

    python sdk_client.py mcp-auto|mcp-legacy|fastmcp URL        the token is in TOKEN
"""
import asyncio
import json
import os
import sys

READ = ('read_knowledge_article', {'knowledge_base_id': 'kb-a', 'article_id': 'refunds'})
ELSEWHERE = ('read_knowledge_article', {'knowledge_base_id': 'kb-b', 'article_id': 'refunds'})


async def with_mcp(url, headers, mode):
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client
    async with create_mcp_http_client(headers=headers) as http, \
            Client(streamable_http_client(url, http_client=http), mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        results = [await client.call_tool(*call) for call in (('list_granted_resources', {}), READ, ELSEWHERE)]
        return names, [(result.is_error, result.structured_content, result.content[0].text) for result in results]


async def with_fastmcp(url, headers, _):
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport
    async with Client(StreamableHttpTransport(url, headers=headers)) as client:
        names = [tool.name for tool in await client.list_tools()]
        results = [await client.call_tool(*call, raise_on_error=False)
                   for call in (('list_granted_resources', {}), READ, ELSEWHERE)]
        return names, [(result.is_error, result.structured_content, result.content[0].text) for result in results]


def main(argv):
    which, url = argv
    client = with_fastmcp if which == 'fastmcp' else with_mcp
    names, results = asyncio.run(client(url, {'Authorization': f'Bearer {os.environ["TOKEN"]}'}, which.partition('-')[2]))
    print(json.dumps({'names': names, 'results': results}))


if __name__ == '__main__':
    main(sys.argv[1:])
