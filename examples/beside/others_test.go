package beside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Numbers of gubernator's protocol.
const (
	nodes                     = 4
	leakyBucket, overLimit    = 1, 1
	behaviorGlobal            = 2
	fieldStatus, fieldMessage = 1, 5
)

// gubernator are four nodes of its release, each asked by a quarter of the processes. A key belongs to one node:
// the others pass requests on, or with GLOBAL answer from a copy that is synchronized later. Nothing is stored,
// so its writes are calls from node to node.
func gubernator(b *testing.B, behavior uint64) (c contestant) {
	b.Helper()
	binary := filepath.Join(engine.Root(), "..", "..", ".cache", "gubernator", "gubernator")
	if _, err := os.Stat(binary); err != nil {
		b.Skip("no gubernator: make bench-service installs it")
	}
	var grpcs, https, gossips [nodes]string
	for i := range nodes {
		host := fmt.Sprintf("127.0.0.%d", 2+i)
		grpcs[i], https[i], gossips[i] = free(b, host), free(b, host), free(b, host)
	}
	for i := range nodes { // a node is known by its address and by the name of its host
		cmd := exec.CommandContext(b.Context(), "unshare", "-ru", "sh", "-c", `hostname "$1" && exec "$0"`, binary,
			fmt.Sprint("node", i))
		cmd.Env = append(os.Environ(), "GUBER_GRPC_ADDRESS="+grpcs[i], "GUBER_HTTP_ADDRESS="+https[i],
			"GUBER_MEMBERLIST_ADDRESS="+gossips[i], "GUBER_MEMBERLIST_BIND_ADDRESS="+gossips[i],
			"GUBER_MEMBERLIST_KNOWN_NODES="+gossips[0])
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	get := func(address, path string) string {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			return "" // it does not listen yet
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	for i, ready := 0, time.Now().Add(time.Minute); i < nodes; {
		if strings.Contains(get(https[i], "/v1/HealthCheck"), fmt.Sprintf(`"peer_count":%d`, nodes)) {
			i++
		} else if time.Sleep(50 * time.Millisecond); time.Now().After(ready) {
			b.Fatal("the nodes do not find each other")
		}
	}
	for i := range c.ask {
		conn, err := grpc.NewClient(grpcs[i%nodes], grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		c.ask[i] = byGubernator(conn, behavior)
	}
	c.writes = func() (n float64) {
		for _, address := range https {
			n += sum(b, `(?m)^gubernator_grpc_request_counts{method="/pb.gubernator.PeersV1/.*"} (.*)$`,
				get(address, "/metrics"))
		}
		return n
	}
	return c
}

// byGubernator asks for a leaky bucket: its token buckets are fixed windows.
func byGubernator(conn *grpc.ClientConn, behavior uint64) asker {
	return func(ctx context.Context, key, value string) (bool, error) {
		var one []byte
		for i, text := range []string{key, value} {
			one = protowire.AppendTag(one, protowire.Number(i+1), protowire.BytesType)
			one = protowire.AppendString(one, text)
		}
		for i, n := range []uint64{1, uint64(rates[key]), 1000, leakyBucket, behavior, uint64(rates[key])} {
			one = protowire.AppendTag(one, protowire.Number(i+3), protowire.VarintType)
			one = protowire.AppendVarint(one, n)
		}
		var out []byte
		all := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), one)
		if err := conn.Invoke(ctx, "/pb.gubernator.V1/GetRateLimits", all, &out); err != nil {
			return false, err
		}
		_, _, n := protowire.ConsumeTag(out)
		one, n = protowire.ConsumeBytes(out[max(n, 0):])
		granted := n > 0
		for len(one) > 0 {
			field, kind, n := protowire.ConsumeTag(one)
			size := protowire.ConsumeFieldValue(field, kind, one[max(n, 0):])
			if n < 0 || size < 0 {
				return false, errors.New("an answer that cannot be read")
			}
			switch content := one[n : n+size]; field {
			case fieldStatus:
				granted = content[0] != overLimit
			case fieldMessage:
				return false, nil // the other node was too slow
			}
			one = one[n+size:]
		}
		return granted, nil
	}
}

// raw passes messages on as they are.
type raw struct{}

func (raw) Name() string                       { return "proto" }
func (raw) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = slices.Clone(data); return nil }

// free returns an unused address of a host.
func free(b *testing.B, host string) string {
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// readThenPut is the design of mennanov/limiters on DynamoDB: a consistent read, the arithmetic in the process, and
// a put on condition that the item is as it was read. Otherwise theirs returns an error, which counts as a denial
// here.
func readThenPut(b *testing.B) (c contestant) {
	e := table(b)
	var writes atomic.Int64
	for i := range c.ask {
		c.ask[i] = byReadThenPut(e.DynamoDB(), &writes)
	}
	c.writes = func() float64 { return float64(writes.Load()) }
	return c
}

func byReadThenPut(db *dynamodb.Client, writes *atomic.Int64) asker {
	return func(ctx context.Context, key, value string) (bool, error) {
		id := map[string]types.AttributeValue{"PK": text(key + "_" + value), "SK": text("bucket")}
		out, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("zae-limiter"), Key: id,
			ConsistentRead: aws.Bool(true)})
		if err != nil {
			return false, err
		}
		now, every := time.Now().UnixNano(), int64(time.Second)/rates[key]
		level, at, version := rates[key], now, int64(0)
		if len(out.Item) > 0 {
			level, at, version = of(out.Item, "level"), of(out.Item, "at"), of(out.Item, "version")
		}
		if more := (now - at) / every; more > 0 {
			level, at = min(rates[key], level+more), now
		}
		if level < 1 {
			return false, nil
		}
		id["level"], id["at"], id["version"] = number(level-1), number(at), number(version+1)
		writes.Add(1)
		_, err = db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("zae-limiter"), Item: id,
			ConditionExpression:       aws.String("attribute_not_exists(PK) OR version = :v"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":v": number(version)}})
		if _, raced := errors.AsType[*types.ConditionalCheckFailedException](err); raced {
			return false, nil
		}
		return err == nil, err
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }

func of(item map[string]types.AttributeValue, name string) int64 {
	n, _ := strconv.ParseInt(item[name].(*types.AttributeValueMemberN).Value, 10, 64)
	return n
}
