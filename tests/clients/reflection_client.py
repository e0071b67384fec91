"""What grpcurl does, with Python's gRPC packages: no compiled protos, everything is asked of the server.

The address of the verifier's gRPC port is the only argument.
"""

import sys

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

VERIFIER = "specfleet.v1.VerifierService"
CHAT = {"chat": {"messages": [{"role": "user", "content": "What is the capital of France?"}]}}


def main(address):
    channel = grpc.insecure_channel(address)

    # This package speaks v1alpha of the reflection protocol.
    reflection = ProtoReflectionDescriptorDatabase(channel)
    services = set(reflection.get_services())
    assert {VERIFIER, "grpc.health.v1.Health"} <= services, services
    print("services:", ", ".join(sorted(services)))

    verifier = DescriptorPool(reflection).FindServiceByName(VERIFIER)
    methods = {method.name: method for method in verifier.methods}
    assert methods["Generate"].server_streaming and not methods["Generate"].client_streaming
    print("methods:", ", ".join(methods))

    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", VERIFIER):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, (service, answer)
    print("health: serving")

    [answer] = call(channel, methods["GetIdentity"], {})
    identity = json_format.MessageToDict(answer)
    assert [draft["state"] for draft in identity["drafts"]] == ["DRAFT_STATE_READY"], identity["drafts"]
    print("identity:", identity["identity"]["versionId"])

    request = {**CHAT, "sampling": {"temperature": 0}, "max_tokens": 32}
    events = [json_format.MessageToDict(event) for event in call(channel, methods["Generate"], request)]
    kinds = [next(iter(event)) for event in events]
    assert kinds[0] == "started" and kinds[-1] == "finished" and set(kinds[1:-1]) == {"committed"}, kinds
    tokens = [token for event in events[1:-1] for token in event["committed"]["tokens"]]
    assert "Paris" in "".join(token.get("text", "") for token in tokens), tokens
    assert events[-1]["finished"]["usage"]["completionTokens"] == len(tokens), events[-1]
    print("generate:", len(tokens), "tokens in", len(events) - 2, "messages")

    try:
        list(call(channel, methods["Generate"], {**CHAT, "sampling": {"temperature": -1}}))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "temperature" in error.details(), error
        print("refusal:", error.details())
    else:
        raise AssertionError("a temperature of -1 was accepted")


def call(channel, method, request):
    """The messages that answer a request, which is given as JSON would be."""
    kind = "unary_stream" if method.server_streaming else "unary_unary"
    function = getattr(channel, kind)(
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    answer = function(json_format.ParseDict(request, GetMessageClass(method.input_type)()), timeout=60)
    return answer if method.server_streaming else [answer]


main(sys.argv[1])
