"""The OpenAPI 3.1 document of a role, made only from the table of operations."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from kalends.contract import codec
from kalends.contract.calls import API_VERSION, Operation, Role
from kalends.core.errors import Problem
from kalends.serving.auth.callers import Authenticator
from kalends.serving.http.bodies import INTEGER_MAX, INTEGER_MIN
from kalends.serving.http.dispatch import operations_of

Schema = dict[str, Any]

_REFERENCE: Final = "#/components/schemas/{name}"
_PATH_FIELD = re.compile(r"\{([a-z_]+)\}")

_STATUSES: Final = (400, 401, 403, 404, 406, 409, 410, 429, 500, 503, 504)
_STATUSES_WITH_BODY: Final = (408, 413, 415, 422)

_NO_NUL: Final = r"^[^\u0000]*$"
"""Pattern of every text, also of those without further constraints."""

_DESCRIPTION: Final = """\
Book several resources that different people own, for the same time: all of them or none.

Bodies and answers are JSON or MessagePack, by `Content-Type` and `Accept`. Times are integer seconds
UTC. Errors are problem details (RFC 9457) whose `code` is stable. Many calls at once go over a
WebSocket at `/v1/calls`: frames of MessagePack, lists of `Call` there and lists of `Reply` back. A site
that runs jobs has another one at `/v1/terminals` for each place at the terminal of a job.
"""


def document(role: Role, name: str, version: str, authenticator: Authenticator) -> bytes:
    """Return the document as JSON, for a server of `role` with this way in."""
    return msgspec.json.encode(build(role, name, version, authenticator))


def build(role: Role, name: str, version: str, authenticator: Authenticator) -> Schema:
    """Build the document as plain values, see `document`."""
    operations = operations_of(role)
    schemes = authenticator.security_schemes()
    schemas = _schemas(operations)
    paths: dict[str, Schema] = {}
    for operation in operations:
        described = _operation(operation, schemas, schemes)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"kalends {role} {name}",
            "version": f"{API_VERSION} ({version})",
            "summary": f"The calls that the {role} {name} answers.",
            "description": _DESCRIPTION,
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Problem": _problem_response()},
            "securitySchemes": schemes,
        },
    }


def _schemas(operations: tuple[Operation, ...]) -> dict[str, Schema]:
    bodies = [operation.body for operation in operations]
    answers = [operation.answer for operation in operations]
    _, answered = msgspec.json.schema_components([*answers, Problem], ref_template=_REFERENCE)
    _, sent = msgspec.json.schema_components(bodies, ref_template=_REFERENCE)
    for schema in sent.values():
        _narrow(schema)
    schemas = {**answered, **sent}
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
    return schemas


def _narrow(schema: Any) -> None:
    """Write into `schema` what `bodies.normalize` refuses in every body."""
    if isinstance(schema, list):
        for inner in schema:
            _narrow(inner)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "string" and "pattern" not in schema:
        schema["pattern"] = _NO_NUL
    elif schema.get("type") == "integer":
        schema.setdefault("minimum", INTEGER_MIN)
        schema.setdefault("maximum", INTEGER_MAX)
    for keyword, inner in schema.items():
        if keyword not in ("default", "enum", "const"):
            _narrow(inner)


def _operation(operation: Operation, schemas: dict[str, Schema], schemes: Iterable[str]) -> Schema:
    fields = _PATH_FIELD.findall(operation.path)
    body = schemas[operation.body.__name__]
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "security": [{name: [operation.scope]} for name in schemes if operation.scope],
        "responses": _responses(operation),
    }
    parameters = [
        {"name": field, "in": "path", "required": True, "schema": body["properties"][field]}
        for field in fields
    ]
    if operation.method == "GET":
        parameters += [
            {
                "name": field,
                "in": "query",
                "required": field in body.get("required", []),
                "schema": schema,
            }
            for field, schema in body["properties"].items()
            if field not in fields
        ]
    else:
        rest = _without(body, fields) if fields else {"$ref": _reference(operation.body)}
        described["requestBody"] = {
            "required": bool(set(body.get("required", [])) - set(fields)),
            "content": _content(rest),
        }
    if parameters:
        described["parameters"] = parameters
    return described


def _without(schema: Schema, fields: list[str]) -> Schema:
    """Return `schema` without the fields that come from the path."""
    rest = copy.deepcopy(schema)
    rest["title"] = f"{schema['title']}, less what is in the path"
    for field in fields:
        del rest["properties"][field]
    rest["required"] = [field for field in rest["required"] if field not in fields]
    return rest


def _responses(operation: Operation) -> Schema:
    problem = {"$ref": "#/components/responses/Problem"}
    statuses = _STATUSES + (_STATUSES_WITH_BODY if operation.method == "POST" else ())
    return {
        "200": {
            "description": HTTPStatus.OK.phrase,
            "content": _content({"$ref": _reference(operation.answer)}),
        },
        **{str(status): problem for status in sorted(statuses)},
    }


def _problem_response() -> Schema:
    schema = {"$ref": _reference(Problem)}
    return {
        "description": "What was wrong, where, and what to do next (RFC 9457).",
        "headers": {
            "Retry-After": {
                "description": "Seconds after which the call may succeed, where that is known.",
                "schema": {"type": "integer", "minimum": 0},
            }
        },
        "content": {
            codec.PROBLEM_JSON: {"schema": schema},
            codec.PROBLEM_MSGPACK: {"schema": schema},
        },
    }


def _content(schema: Schema) -> Schema:
    return {codec.JSON: {"schema": schema}, codec.MSGPACK: {"schema": schema}}


def _reference(kind: type[msgspec.Struct]) -> str:
    return _REFERENCE.format(name=kind.__name__)
