package envoylimit

import (
	"context"
	"unicode/utf8"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Register registers the service with a gRPC server. Strings in requests may have any bytes,
// because Envoy sends header fields as they came. ratelimit.RegisterRateLimitServiceServer would
// refuse such requests before the service sees them, and Envoy lets requests without an answer
// pass.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: ratelimit.RateLimitService_ServiceDesc.ServiceName,
		HandlerType: (*ratelimit.RateLimitServiceServer)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}},
		Metadata:    "envoy/service/ratelimit/v3/rls.proto",
	}, s)
}

func handle(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	var wire emptypb.Empty // keeps every field as it came
	if err := dec(&wire); err != nil {
		return nil, err
	}
	in, err := unmarshal(wire.ProtoReflect().GetUnknown())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	serve := func(ctx context.Context, in any) (any, error) {
		return srv.(*Service).ShouldRateLimit(ctx, in.(*ratelimit.RateLimitRequest))
	}
	if interceptor == nil {
		return serve(ctx, in)
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: ratelimit.RateLimitService_ShouldRateLimit_FullMethodName}
	return interceptor(ctx, in, info, serve)
}

// unmarshal reads a request and keeps the bytes of its strings, which need not be UTF-8. Before
// decoding it widens each byte to a character, because protobuf refuses other strings.
func unmarshal(wire []byte) (*ratelimit.RateLimitRequest, error) {
	in := new(ratelimit.RateLimitRequest)
	if err := proto.Unmarshal(wire, in); err == nil {
		return in, nil
	}
	if err := proto.Unmarshal(widened(wire, in.ProtoReflect().Descriptor()), in); err != nil {
		return nil, err
	}
	in.Domain = narrowed(in.Domain)
	for _, d := range in.Descriptors {
		for _, e := range d.Entries {
			e.Key, e.Value = narrowed(e.Key), narrowed(e.Value)
		}
	}
	return in, nil
}

// widened returns a message in which each byte of a string is a character. A malformed message
// stays malformed.
func widened(wire []byte, d protoreflect.MessageDescriptor) (out []byte) {
	for len(wire) > 0 {
		num, typ, n := protowire.ConsumeField(wire)
		if n < 0 {
			return append(out, wire...)
		}
		field, rest := d.Fields().ByNumber(num), wire[n:]
		if typ != protowire.BytesType || field == nil {
			out, wire = append(out, wire[:n]...), rest
			continue
		}
		_, _, tag := protowire.ConsumeTag(wire)
		value, _ := protowire.ConsumeBytes(wire[tag:])
		if field.Message() != nil {
			value = widened(value, field.Message())
		} else if field.Kind() == protoreflect.StringKind {
			var wide []byte
			for _, b := range value {
				wide = utf8.AppendRune(wide, rune(b))
			}
			value = wide
		}
		out, wire = protowire.AppendBytes(protowire.AppendTag(out, num, typ), value), rest
	}
	return out
}

// narrowed returns the bytes that the characters of a string stand for.
func narrowed(s string) string {
	var out []byte
	for _, r := range s {
		out = append(out, byte(r))
	}
	return string(out)
}
