"""Reads pairs of statements with PostgreSQL's own grammar and says which pairs it reads
differently.

Input: a JSON object a line, {"text": …, "printed": …}. Output: a JSON object a line, with
"verdict": "same", "differs" (and both trees where they part), "taken" where only what is printed is
a statement, or "refused" where what is printed is none.
"""

import json
import sys

from pglast.parser import ParseError, parse_sql_json

PLACES = {
    "location",
    "stmt_location",
    "stmt_len",
    "list_start",
    "list_end",
    "name_location",
    "type_location",
    "arg_location",
    "rexpr_list_start",
    "rexpr_list_end",
}


def tree(sql):
    return without_places(json.loads(parse_sql_json(sql))["stmts"])


def without_places(node):
    if isinstance(node, dict):
        return alike({k: without_places(v) for k, v in node.items() if k not in PLACES})
    if isinstance(node, list):
        return [without_places(v) for v in node]
    return node


def alike(node):
    """One form of what PostgreSQL itself makes the same of: these are all the liberties we take."""
    # pg_catalog.text is the type that `text` names: no other schema stands before pg_catalog.
    names = node.get("names")
    if names and names[0] == {"String": {"sval": "pg_catalog"}} and len(names) == 2:
        node["names"] = names[1:]
    # a BETWEEN SYMMETRIC b AND c is a BETWEEN b AND c OR a BETWEEN c AND b.
    expr = node.get("A_Expr")
    if expr and expr.get("kind") == "AEXPR_BETWEEN_SYM":
        first, second = expr["rexpr"]["List"]["items"]
        return {
            "BoolExpr": {
                "boolop": "OR_EXPR",
                "args": [between(expr, first, second), between(expr, second, first)],
            }
        }
    # GROUPING SETS within GROUPING SETS are their sets.
    sets = node.get("GroupingSet")
    if sets and sets.get("kind") == "GROUPING_SET_SETS":
        sets["content"] = [inner for each in sets["content"] for inner in sets_of(each)]
    # LIMIT ALL is no LIMIT.
    select = node.get("SelectStmt", node)
    if select.get("limitCount") == {"A_Const": {"isnull": True}}:
        del select["limitCount"]
        if "limitOffset" not in select:
            select.pop("limitOption", None)
    if select.get("limitOption") == "LIMIT_OPTION_COUNT":
        del select["limitOption"]
    # current_catalog is current_database().
    if node.get("SQLValueFunction", {}).get("op") == "SVFOP_CURRENT_CATALOG":
        return {
            "FuncCall": {
                "funcname": [{"String": {"sval": "current_database"}}],
                "funcformat": "COERCE_EXPLICIT_CALL",
            }
        }
    # TRIM(FROM a) is TRIM(' ' FROM a).
    call = node.get("FuncCall", {})
    name = call.get("funcname", [{}])[-1].get("String", {}).get("sval")
    if name in {"btrim", "ltrim", "rtrim"} and len(call.get("args", [])) == 2:
        if call["args"][1] == {"A_Const": {"sval": {"sval": " "}}}:
            del call["args"][1]
    # A frame's offset in quotes is an interval, where it is none of a number.
    for edge in ("startOffset", "endOffset"):
        cast = node.get(edge, {}).get("TypeCast") if isinstance(node.get(edge), dict) else None
        if cast and cast["typeName"]["names"][-1] == {"String": {"sval": "interval"}}:
            node[edge] = cast["arg"]
    return node


def between(expr, low, high):
    return {
        "A_Expr": {
            **expr,
            "kind": "AEXPR_BETWEEN",
            "name": [{"String": {"sval": "BETWEEN"}}],
            "rexpr": {"List": {"items": [low, high]}},
        }
    }


def sets_of(node):
    inner = node.get("GroupingSet")
    if inner and inner.get("kind") == "GROUPING_SET_SETS":
        return inner["content"]
    return [node]


def parting(one, other, path=""):
    """Where two trees part: the path, and what stands there."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            if one[key] != other[key]:
                return parting(one[key], other[key], f"{path}/{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (a, b) in enumerate(zip(one, other)):
            if a != b:
                return parting(a, b, f"{path}/{at}")
    return f"{path}: {json.dumps(one)[:300]} and {json.dumps(other)[:300]}"


def compared(text, printed):
    try:
        ours = tree(printed)
    except ParseError:
        # The shadow's PostgreSQL reads what is printed before anything else happens.
        return {"verdict": "refused"}
    try:
        written = tree(text)
    except ParseError as error:
        return {"verdict": "taken", "why": str(error)}
    if written == ours:
        return {"verdict": "same"}
    return {"verdict": "differs", "why": parting(written, ours)}


for line in sys.stdin:
    pair = json.loads(line)
    print(json.dumps(compared(pair["text"], pair["printed"])))
