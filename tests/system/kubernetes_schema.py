"""Kubernetes manifests against the API's schema, by the models of Debian's python3-kubernetes, which are made from it.

Run by the interpreter that has the package: kubernetes_schema.py FILE... prints a line for each fault. The exit code is 1 where
there is one, and 77 without the package.
"""

import re
import sys

import yaml

PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "datetime": str}


def faults(value, kind, path, models):
    """Faults of a value of this type of the schema: pairs of a path and a sentence."""
    if kind == "object":  # of any form, such as a number or a share
        return
    if inner := re.fullmatch(r"list\[(.*)\]", kind):
        if not isinstance(value, list):
            yield path, f"is {value!r}, and has to be a list"
            return
        for number, one in enumerate(value):
            yield from faults(one, inner[1], f"{path}[{number}]", models)
    elif inner := re.fullmatch(r"dict\(str, (.*)\)", kind):
        if not isinstance(value, dict):
            yield path, f"is {value!r}, and has to be a map"
            return
        for name, one in value.items():
            yield from faults(one, inner[1], f"{path}.{name}", models)
    elif kind in PLAIN:
        # A bool is an int for Python.
        if not isinstance(value, PLAIN[kind]) or (kind != "bool" and isinstance(value, bool)):
            yield path, f"is {value!r}, and has to be of type {kind}"
    else:
        yield from faults_of_object(value, getattr(models, kind), path, models)


def faults_of_object(value, model, path, models):
    if not isinstance(value, dict):
        yield path, f"is {value!r}, and has to be a {model.__name__}"
        return
    types = {name: model.openapi_types[attribute] for attribute, name in model.attribute_map.items()}
    for name, one in value.items():
        if name in types:
            yield from faults(one, types[name], f"{path}.{name}", models)
        else:
            yield f"{path}.{name}", f"is no member of {model.__name__}, which has {', '.join(sorted(types))}"
    try:
        # The models refuse what lacks a member that they need.
        model(**{attribute: value.get(name) for attribute, name in model.attribute_map.items()})
    except ValueError as error:
        yield path, str(error)


def model_of(document, client):
    """The class of a document by its apiVersion and kind; None: there is none."""
    group, _, version = str(document.get("apiVersion")).rpartition("/")
    kind = str(document.get("kind"))
    # "apps/v1" is AppsV1Api, and "v1" CoreV1Api.
    api = getattr(client, f"{(group.split('.')[0] or 'core').capitalize()}{version.capitalize()}Api", None)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
    return getattr(client.models, version.capitalize() + kind, None) if hasattr(api, f"create_namespaced_{words}") else None


def check(text, client):
    for number, document in enumerate(yaml.safe_load_all(text)):
        model = model_of(document, client)
        if model is None:
            yield f"document {number}: no {document.get('apiVersion')} {document.get('kind')} is in the schema"
            continue
        for path, sentence in faults_of_object(document, model, document["kind"], client.models):
            yield f"{path} {sentence}"


def main():
    try:
        from kubernetes import client
    except ImportError:
        return 77
    failed = False
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            for fault in check(file.read(), client):
                failed = True
                print(f"{name}: {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
