"""Runs the steps of everything.json with the official Python SDK and prints the results as JSON lines. The output
is the same for every run, with or without a gateway in between.

    python everything.py <sdk> <mode> <toolbox> <server> -- <command> [argument...]

`v1` is SDK 1.x, `v2` is SDK 2.x without the discovery probe, `v2-auto` is SDK 2.x with its defaults; v1 and v2 need
separate environments. The mode selects how tools are called: `plain` by the server's own names, `dynamic` by names
prefixed with toolbox and server, `proxy` through `use_tool`.
"""

import asyncio
import base64
import json
import os
import re
import sys
import warnings
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from pydantic import TypeAdapter

WAIT = 5
CALL_TIMEOUT = 15
SCENARIO = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
BLOTS = [(re.compile(pattern), blot) for pattern, blot in SCENARIO["blots"]]
INFO = types.Implementation(name="everything-client", version="1.0.0")


def blotted(text):
    for pattern, blot in BLOTS:
        text = pattern.sub(blot, text)
    return text


def blob(encoded):
    """Decodes text blobs, because they may contain times."""
    try:
        return f"text: {blotted(base64.b64decode(encoded).decode())}"
    except UnicodeDecodeError:
        return encoded


def normal(value, key=None):
    """Masks values that vary between runs."""
    if isinstance(value, str):
        return blob(value) if key == "blob" else blotted(value)
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return {name: normal(member, name) for name, member in value.items()}
    return value


def plain(model):
    """An SDK model in its wire format."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def by_name(items):
    return sorted(items, key=lambda item: item["name"])


def by_uri(items):
    return sorted(items, key=lambda item: item.get("uri") or item["uriTemplate"])


class Heard:
    """Messages and requests from the server."""

    def __init__(self):
        self.messages = []
        self.changed = asyncio.Event()

    def add(self, model):
        message = normal(plain(getattr(model, "root", model)))
        if message["method"] == "notifications/progress":
            return
        params = message.get("params", {})
        # In MCP 2026-07-28, notifications carry their subscription id.
        params.get("_meta", {}).pop("io.modelcontextprotocol/subscriptionId", None)
        if not params.get("_meta", True):
            del params["_meta"]
        if params.get("data") == "<level> message":
            params["level"] = "<level>"
        message = {"method": message["method"], "params": params}
        self.messages.append(json.dumps(message, ensure_ascii=False, sort_keys=True))
        self.changed.set()

    async def comes(self, pattern, since):
        """Waits for a matching message; `since` is the first index to check."""
        try:
            async with asyncio.timeout(WAIT):
                while not any(re.search(pattern, message) for message in self.messages[since:]):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        return True


class Agent:
    """The client, with a user who responds according to the scenario."""

    def __init__(self, sdk, mode, toolbox, server):
        self.v1 = sdk == "v1"
        self.sdk, self.mode, self.toolbox, self.server = sdk, mode, toolbox, server
        self.prefix = f"{toolbox}__{server}__" if mode == "dynamic" else ""
        if self.prefix:
            BLOTS.append((re.compile(self.prefix), ""))
        self.heard = Heard()
        self.roots = SCENARIO["roots"]
        self.answers = {}
        self.tasks = {}
        self.level = None
        self.subscriptions = {}

    # Requests from the server.

    async def on_message(self, message):
        if isinstance(message, Exception):
            raise message
        if not hasattr(message, "request_id"):
            self.heard.add(message)

    def answer(self, request, result):
        self.heard.add(request)
        return result.model_validate(self.answers[request.method])

    async def on_roots(self, context):
        self.heard.add(types.ListRootsRequest())
        return types.ListRootsResult.model_validate({"roots": self.roots})

    async def on_sampling(self, context, params):
        request = types.CreateMessageRequest(params=params)
        return self.answer(request, types.CreateMessageResult)

    async def on_elicitation(self, context, params):
        return self.answer(types.ElicitRequest(params=params), types.ElicitResult)

    # Connection.

    @asynccontextmanager
    async def connected(self, command):
        parameters = StdioServerParameters(
            command=command[0], args=command[1:], env=dict(os.environ)
        )
        handlers = {
            "sampling_callback": self.on_sampling,
            "elicitation_callback": self.on_elicitation,
            "list_roots_callback": self.on_roots,
            "message_handler": self.on_message,
            "client_info": INFO,
        }
        if self.v1:
            handlers["experimental_task_handlers"] = self.task_handlers()
            async with stdio_client(parameters) as (reading, writing):
                async with ClientSession(reading, writing, **handlers) as self.client:
                    result = await self.client.initialize()
                    yield result.capabilities, result.instructions
        else:
            from mcp import Client

            mode = "auto" if self.sdk == "v2-auto" else "legacy"
            async with Client(parameters, mode=mode, **handlers) as self.client:
                if self.modern:
                    lists = ("tools", "prompts", "resources")
                    changes = {f"{name}_list_changed": True for name in lists}
                    self.subscriptions["lists"] = await self.listen(**changes)
                yield self.client.server_capabilities, self.client.instructions
                for subscription in self.subscriptions.values():
                    subscription.cancel()

    # Replacements for requests that MCP 2026-07-28 removed.

    @property
    def modern(self):
        return not self.v1 and self.client.protocol_version >= "2026"

    async def listen(self, **changes):
        """Starts a task that holds a subscription until it is canceled."""
        begun = asyncio.Event()

        async def hold():
            async with self.client.listen(**changes):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await asyncio.wait_for(begun.wait(), CALL_TIMEOUT)
        return task

    @property
    def meta(self):
        """MCP 2026-07-28 sends the log level with every request."""
        key = "io.modelcontextprotocol/logLevel"
        return {"meta": {key: self.level}} if self.modern and self.level else {}

    # Steps.

    def called(self, step):
        tool, arguments = step["tool"], step.get("arguments")
        if self.mode != "proxy":
            return self.prefix + tool, arguments
        path = {"toolbox": self.toolbox, "server": self.server, "tool": tool}
        return "use_tool", {"tool": path, "arguments": arguments or {}}

    def uri(self, uri):
        return TypeAdapter(types.AnyUrl).validate_python(uri) if self.v1 else uri

    async def open(self):
        arguments = {"toolbox": self.toolbox, "detail": "full"}
        return json.loads((await self.client.call_tool("open_toolbox", arguments)).content[0].text)

    async def do_ping(self, step):
        if self.modern:
            return {} if await self.client.session.discover() else None
        return plain(await self.client.send_ping())

    async def do_setLevel(self, step):
        if self.modern:
            self.level = step["level"]
            return {}
        return plain(await self.client.set_logging_level(step["level"]))

    async def do_tools(self, step):
        if self.mode == "proxy":
            tools = (await self.open())["tools"]
        else:
            tools = plain(await self.client.list_tools())["tools"]
        own = [tool for tool in tools if tool["name"].startswith(self.prefix)]
        path = ("toolbox", "server")
        return by_name([{key: tool[key] for key in tool if key not in path} for tool in own])

    async def do_prompts(self, step):
        return by_name(plain(await self.client.list_prompts())["prompts"])

    async def do_resources(self, step):
        return by_uri(plain(await self.client.list_resources())["resources"])

    async def do_templates(self, step):
        return by_uri(plain(await self.client.list_resource_templates())["resourceTemplates"])

    async def do_call(self, step):
        progress = []

        async def on_progress(done, total, message):
            if done < total:
                progress.append({"progress": done, "total": total})

        wanted = {"progress_callback": on_progress} if step.get("progress") else {}
        call = self.client.call_tool(*self.called(step), **wanted, **self.meta)
        result = plain(await asyncio.wait_for(call, CALL_TIMEOUT))
        return {**result, "progress": progress} if wanted else result

    async def do_cancel(self, step):
        begun = asyncio.Event()

        async def on_progress(done, total, message):
            begun.set()

        name, arguments = self.called(step)
        # SDK v1 doesn't send the cancellation itself.
        request_id = self.client._request_id if self.v1 else None
        call = asyncio.create_task(
            self.client.call_tool(name, arguments, progress_callback=on_progress)
        )
        await asyncio.wait_for(begun.wait(), CALL_TIMEOUT)
        if self.v1:
            params = types.CancelledNotificationParams(requestId=request_id)
            cancelled = types.CancelledNotification(params=params)
            await self.client.send_notification(types.ClientNotification(cancelled))
        call.cancel()
        try:
            return plain(await call)
        except asyncio.CancelledError:
            raise RuntimeError("cancelled") from None

    async def do_read(self, step):
        return plain(await self.client.read_resource(self.uri(step["uri"]), **self.meta))

    async def do_subscribe(self, step):
        if self.modern:
            subscription = await self.listen(resource_subscriptions=[step["uri"]])
            self.subscriptions[step["uri"]] = subscription
            return {}
        return plain(await self.client.subscribe_resource(self.uri(step["uri"])))

    async def do_unsubscribe(self, step):
        if self.modern:
            self.subscriptions[step["uri"]].cancel()
            return {}
        return plain(await self.client.unsubscribe_resource(self.uri(step["uri"])))

    async def do_prompt(self, step):
        prompt, arguments = step["prompt"], step.get("arguments")
        return plain(await self.client.get_prompt(prompt, arguments, **self.meta))

    async def do_complete(self, step):
        if "prompt" in step:
            ref = types.PromptReference(type="ref/prompt", name=step["prompt"])
        else:
            ref = types.ResourceTemplateReference(type="ref/resource", uri=step["template"])
        context = {"context_arguments": step["context"]} if "context" in step else {}
        return plain(await self.client.complete(ref, step["argument"], **context))

    async def do_setRoots(self, step):
        self.roots = step["roots"]
        # In MCP 2026-07-28, servers request the roots when they need them.
        if not self.modern:
            await self.client.send_roots_list_changed()
        return {}

    # Tasks, which only SDK v1 supports.

    def task_handlers(self):
        from mcp.client.experimental.task_handlers import ExperimentalTaskHandlers

        def task(number, status):
            now = datetime.now(timezone.utc)
            times = {"createdAt": now, "lastUpdatedAt": now}
            return {"taskId": f"{number:032x}", "status": status, "ttl": 60_000, **times}

        def create(result):
            number = len(self.tasks)
            self.tasks[f"{number:032x}"] = number, result
            return types.CreateTaskResult.model_validate({"task": task(number, "working")})

        async def sampling(context, params, metadata):
            return create(await self.on_sampling(context, params))

        async def elicitation(context, params, metadata):
            return create(await self.on_elicitation(context, params))

        async def get(context, params):
            number, _ = self.tasks[params.taskId]
            return types.GetTaskResult.model_validate(task(number, "completed"))

        async def result(context, params):
            _, result = self.tasks[params.taskId]
            return types.GetTaskPayloadResult.model_validate(plain(result))

        return ExperimentalTaskHandlers(
            augmented_sampling=sampling,
            augmented_elicitation=elicitation,
            get_task=get,
            get_task_result=result,
        )

    async def task(self, step):
        name, arguments = self.called(step)
        created = await self.client.experimental.call_tool_as_task(name, arguments)
        return created.task.taskId

    async def do_task(self, step):
        task = await self.task(step)
        result = self.client.experimental.get_task_result(task, types.CallToolResult)
        return plain(await asyncio.wait_for(result, CALL_TIMEOUT))

    async def do_cancelTask(self, step):
        task = await self.client.experimental.cancel_task(await self.task(step))
        return {"status": task.status, "statusMessage": task.statusMessage}

    async def do_tasks(self, step):
        tasks = (await self.client.experimental.list_tasks()).tasks
        return [{"status": task.status, "ttl": task.ttl} for task in tasks]

    async def take(self, step):
        since = 0 if step.get("sinceStart") else len(self.heard.messages)
        self.answers = step.get("answers", {})
        try:
            outcome = {"result": normal(await getattr(self, f"do_{step['do']}")(step))}
        except Exception as error:
            told = getattr(error, "error", None)
            told = plain(told) if told else {"message": str(error)}
            outcome = {"error": normal(told)}
        awaited = step.get("awaits") or (None if self.modern else step.get("awaitsLog"))
        if awaited and not await self.heard.comes(awaited, since):
            outcome["unheard"] = awaited
        return outcome


def say(step, outcome):
    print(json.dumps({"step": step, **outcome}, ensure_ascii=False), flush=True)


async def main(sdk, mode, toolbox, server, command):
    agent = Agent(sdk, mode, toolbox, server)
    features = ["tasks"] if agent.v1 else []
    async with agent.connected(command) as (capabilities, instructions):
        if mode != "plain":
            instructions = (await agent.open()).get("server_instructions", {}).get(server)
        connect = {"capabilities": plain(capabilities), "instructions": instructions}
        say("connect", {"result": connect})
        for step in SCENARIO["steps"]:
            if step.get("needs") is None or step["needs"] in features:
                say(step["step"], await agent.take(step))
        heard = [json.loads(message) for message in sorted(set(agent.heard.messages))]
        say("heard", {"result": heard})


if __name__ == "__main__":
    if (
        len(sys.argv) < 7
        or sys.argv[1] not in ("v1", "v2", "v2-auto")
        or sys.argv[2] not in ("plain", "dynamic", "proxy")
        or sys.argv[5] != "--"
    ):
        sys.exit("usage: <v1|v2|v2-auto> <plain|dynamic|proxy> <toolbox> <server> -- <command>...")
    warnings.simplefilter("ignore")
    asyncio.run(main(*sys.argv[1:5], sys.argv[6:]))
