"""Contracts: stages as functions of a model, from inputs to an artifact that matches a schema."""

import json
import os
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from agentforge import (
    DefinitionError,
    InvalidRequest,
    StageContract,
    artifact_id,
    plain_data,
    request_id_of,
    stage_contract,
)
from agentforge.core.harness.minimal_context import MinimalContextExecutor, ModelFailed, quoted
from agentforge.core.harness.replies import json_in, yaml_in
from agentforge.provider import Failure, FailureKind, Usage

READING = tuple({"name": name} for name in ("read_file", "list_directory", "search_code"))
"""The tools of a contract: it changes nothing."""
MAX_ITERATIONS = 25
FOLDERS = ("contracts", ".agentforge/contracts")
"""Of a project, with a folder for each contract of its own."""
_OF_STAGE = re.compile(r"[\w-]+\.([\w-]+)\.v\d+")
_VARIABLE = re.compile(r"\$\{([A-Z_]+)\}")
_SYSTEM = """\
{prompt}

---

The inputs are in the message. No other files are prepared for you, whatever is said above, and you write
none. Answer with a JSON object in a block of JSON, and nothing after it. It must match this JSON Schema:

{schema}
"""
_MESSAGE = "Do the work of the stage `{stage}` with these inputs."
_HEALING = """\
{message}

Your previous answer can't be used: {problems}.

{answer}

Answer again, without this mistake.
"""


def execute_contract(
    contract_id: str,
    inputs: Mapping[str, Any],
    use_api: bool = True,
    *,
    project_path: str | os.PathLike[str] = ".",
    model: str = "",
    config: Mapping[str, Any] | None = None,
    on_usage: Callable[[Usage], object] | None = None,
) -> dict[str, Any]:
    """The artifact, which matches the schema of the contract. An answer that doesn't is sent back once.

    Raises InvalidRequest for unknown contracts and missing inputs, ProviderUnusable without the extra `api`
    or a key, and ModelFailed.
    """
    if not use_api:
        hint = "leave out `use_api`, or run the stage with an agent: `agentforge run`"
        raise InvalidRequest("a contract is executed by a model that is called directly", hint=hint)
    contract = find_contract(contract_id, project_path)
    if missing := [name for name in contract.needs if inputs.get(name) is None]:
        what = f"contract {contract_id}: missing input fields: {', '.join(missing)}"
        raise InvalidRequest(what, hint="add them to the inputs")
    given, keys = plain_data(inputs), _keys(contract, inputs)
    executor = MinimalContextExecutor(
        project_path, f"contract_{contract.name}", model=model, config=config, on_usage=on_usage
    )

    def ask(message: str) -> tuple[dict[str, Any] | None, str]:
        reply = executor.execute_task(message, _system(contract), {**given, **keys}, READING, MAX_ITERATIONS)
        text = str(reply["response"])
        return json_in(text) or yaml_in(text), text

    message = _MESSAGE.format(stage=contract.name)
    answer, text = ask(message)
    if problems := _problems(contract, answer, keys):
        said = _HEALING.format(message=message, problems="; ".join(problems), answer=quoted(text))
        answer, _ = ask(said)
        problems = _problems(contract, answer, keys)
    if answer is None or problems:
        what = f"contract {contract_id}: the answer is not accepted: {'; '.join(problems)}"
        raise ModelFailed(Failure(FailureKind.RESULT_INVALID, what))
    return {**answer, **keys}


def find_contract(contract_id: str, project_path: str | os.PathLike[str] = ".") -> StageContract:
    """That of the project, in `contracts/ID/`, or a stage: `spec.intake.v1` is the stage `intake`. Raises
    InvalidRequest if both are missing, DefinitionError for mistakes in the files."""
    for folder in FOLDERS:
        if found := _contract(contract_id, project_path, {"STAGES_DIR": folder}):
            return found
    if (named := _OF_STAGE.fullmatch(contract_id)) and (found := _contract(named[1], project_path, {})):
        return found
    searched = ", ".join(f"{folder}/{contract_id}/" for folder in FOLDERS)
    hint = "create one of these folders, with a prompt.md; or name a stage, such as `spec.intake.v1`"
    raise InvalidRequest(f"no contract {contract_id!r}; searched {searched}", hint=hint)


def _contract(name: str, project: str | os.PathLike[str], environ: Mapping[str, str]) -> StageContract | None:
    try:
        return stage_contract(name, project, environ)
    except DefinitionError as error:
        if any(one.code == "unknown-stage" for one in error.diagnostics):
            return None
        raise


def _problems(contract: StageContract, answer: dict[str, Any] | None, keys: dict[str, Any]) -> list[str]:
    return ["no mapping was found"] if answer is None else contract.mismatches({**answer, **keys})


def _system(contract: StageContract) -> str:
    prompt = _VARIABLE.sub(lambda found: "the message" if found[1] == "CTX" else "", contract.prompt)
    return _SYSTEM.format(prompt=prompt.strip(), schema=json.dumps(contract.schema, ensure_ascii=False))


def _keys(contract: StageContract, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What isn't left to a model: ids, and the text of the request."""
    texts = (inputs.get(name) for name in ("original_request", "user_request", "raw_request"))
    request = next((text for text in texts if isinstance(text, str)), None)
    request_id = str(inputs.get("request_id") or request_id_of(datetime.now(UTC), uuid.uuid4().hex))
    keys = {"request_id": request_id, "original_request": request}
    for field, source in contract.fill.items():
        made = artifact_id(field, contract.name, request_id) if source == "id" else request
        keys[field] = inputs.get(field) or made
    return {name: value for name, value in keys.items() if value is not None}
