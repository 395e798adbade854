"""The types that the fields of the kinds are made of: each with its bounds, since the API server knows no others."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from taskyard.api.pod_template import DNS_LABEL, MAX_CONTAINER_NAME
from taskyard.api.schema import ANY_JSON, JSON
from taskyard.core.words import CODE_LIMIT, MESSAGE_LIMIT

# JSON numbers are exact to here; the API server keeps a schema's bounds as floating point.
MAX_EXACT = 2**53 - 1
MAX_INT32 = 2**31 - 1
YEAR = 365 * 24 * 3600
MAX_NAME = 253
MAX_LABEL_VALUE = 63

DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_VALUE = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
CAMEL_CASE_WORD = r"^[A-Z][A-Za-z0-9]*$"
# What both Go and Python's `datetime.fromisoformat` read: `format: date-time` alone lets through the year 0000,
# a small `t`, and offsets of 99 hours. The format is still needed: it knows how long February is.
INSTANT = (
    r"^(19|2[0-9])[0-9]{2}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)

INT32: JSON = {"format": "int32"}


def whole(minimum: int, maximum: int) -> Any:
    """What makes an `int` a field: both its bounds."""
    return Field(ge=minimum, le=maximum, json_schema_extra=INT32)


def list_map(*keys: str) -> JSON:
    """The marks of a list whose items are told apart by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


LIST_SET: JSON = {"x-kubernetes-list-type": "set"}
LIST_ATOMIC: JSON = {"x-kubernetes-list-type": "atomic"}

Count = Annotated[int, whole(0, MAX_INT32)]
Generation = Annotated[int, Field(ge=0, le=MAX_EXACT, json_schema_extra={"format": "int64"})]
ExitCode = Annotated[int, whole(-MAX_INT32 - 1, MAX_INT32)]
Signal = Annotated[int, whole(1, 64)]
Seconds = Annotated[int, whole(1, YEAR)]
Delay = Annotated[int, whole(0, YEAR)]
Priority = Annotated[int, whole(-1_000_000, 1_000_000)]

DnsLabel = Annotated[str, StringConstraints(max_length=MAX_CONTAINER_NAME, pattern=DNS_LABEL)]
DnsSubdomain = Annotated[str, StringConstraints(max_length=MAX_NAME, pattern=DNS_SUBDOMAIN)]
LabelValue = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL_VALUE, pattern=LABEL_VALUE)]
ObjectName = Annotated[str, StringConstraints(max_length=MAX_NAME)]
Uid = Annotated[str, StringConstraints(max_length=64)]
# The identity of an operator: the name of its pod, and a suffix that tells two lives of it apart.
Identity = Annotated[str, StringConstraints(max_length=316)]
ReasonWord = Annotated[str, StringConstraints(max_length=128, pattern=CAMEL_CASE_WORD)]
Code = Annotated[str, StringConstraints(max_length=CODE_LIMIT)]
Message = Annotated[str, StringConstraints(max_length=MESSAGE_LIMIT)]

Instant = Annotated[datetime, Field(json_schema_extra={"pattern": INSTANT})]
"""A time that a user writes."""

AnyJson = Annotated[Any, WithJsonSchema(ANY_JSON)]


class Model(BaseModel):
    """camelCase outside, and nothing that is not named here."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True)
