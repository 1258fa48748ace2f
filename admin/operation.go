package admin

import (
	"context"
	"math/rand/v2"
	"regexp"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

var operationID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// Once returns the same namespace, where Reset, Credit and Raise happen once for an id and bucket.
// Take the id from the cause: a purchase, a ticket. Within three days, a second call with the id
// changes nothing and returns the first call's result: after a lost answer, say, or a double click.
// The same holds for a Python client with this idempotency key. A bucket with more than 97 shards
// takes several transactions. If one fails after the first, the error is limiter.ErrUnknown, and
// another call with the id does not do the rest. An id has 1 to 64 characters: letters, digits,
// '.', '_', ':' and '-'. Otherwise the error is ErrInvalid, as it is for a Credit with the id of a
// Reset.
func (n *Namespace) Once(id string) (*Namespace, error) {
	if !operationID.MatchString(id) {
		return nil, validate.Invalid("id", id, "1 to 64 letters, digits and ._:-")
	}
	once := *n
	once.once = id
	return &once, nil
}

func (n *Namespace) operationOf(of Scope, kind string) table.Operation {
	return table.Operation{Namespace: n.id, Entity: of.Entity, Resource: of.Resource, ID: n.once, Kind: kind}
}

// operation returns the operation of the id, without Tokens if there was none yet.
func (n *Namespace) operation(ctx context.Context, of Scope, kind string) (table.Operation, error) {
	if n.once == "" {
		return table.Operation{}, nil
	}
	items, err := n.calls.read(ctx, n.operationOf(of, kind).Key())
	if err != nil || items[0] == nil {
		return table.Operation{}, err
	}
	done, err := table.DecodeOperation(items[0])
	if err == nil && done.Kind != kind {
		err = validate.Invalid("id", n.once, "one that was not used for a "+done.Kind+" of this bucket")
	}
	if err != nil {
		return table.Operation{}, err
	}
	return done, nil
}

// recorded returns the writes with those that record them: the audit event, and the operation
// if there is an id.
func (n *Namespace) recorded(
	ctx context.Context, r raising, added map[string]int64, shards int, writes []item.Write,
) ([]item.Write, error) {
	system, err := n.readScope(ctx, Scope{})
	if err != nil {
		return nil, err
	}
	out := []item.Write{n.record(ctx, system.system, n.bucketLevels(r.of, r.action, added))}
	if n.once != "" {
		op := n.operationOf(r.of, r.kind)
		op.Writer, op.Shards, op.Tokens, op.At = n.table.ids.next(n.table.now()), shards, added, n.table.now()
		out = append(out, op.Create())
	}
	return append(out, writes...), nil
}

// fresh describes a bucket to be created, if one of the limits in force is a quota, and the
// shard that it would be.
func (n *Namespace) fresh(ctx context.Context, r raising, now int64) (*table.NewBucket, []table.Shard, error) {
	in, err := n.inForce(ctx, r.of.Entity, r.of.Resource)
	if err != nil || !slices.ContainsFunc(in.limits, bucket.Limit.Renews) {
		return nil, nil, err
	}
	e, err := n.entity(ctx, r.of.Entity)
	if err != nil {
		return nil, nil, err
	}
	b := &table.NewBucket{Namespace: n.id, Entity: r.of.Entity, Resource: r.of.Resource, Cascade: e.Cascade,
		Parent: e.Parent, Costs: table.Costs(in.limits), Lifetime: in.lifetime(), Now: now, Draw: rand.Uint64()}
	_, shard := table.Create(*b)
	return b, []table.Shard{shard}, nil
}
