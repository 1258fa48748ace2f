package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

// namespace is shared by the demo's clients.
const namespace = "demo"

// seedConfig stores the limits of every level, and the hot bucket with a write meter that a laptop
// can exhaust. The clients create the tenants' other buckets.
func seedConfig(ctx context.Context, s store.Store, ns string, now int64) error {
	writes := []item.Write{item.Put{Item: config.Config{Namespace: ns, Limits: clients.Stored(systemLimits...)}.Item()}}
	resources := map[string]bool{}
	for _, t := range tenants {
		c := config.Config{Namespace: ns, Limits: clients.Stored(t.limits...)}
		switch t.level {
		case byResource:
			if resources[t.resource] {
				continue
			}
			resources[t.resource], c.Resource = true, t.resource
		case byEntity:
			c.Entity, c.Resource = t.entity, t.resource
		case entityDefault:
			c.Entity, c.Resource = t.entity, layout.DefaultResource
		default:
			continue
		}
		writes = append(writes, item.Put{Item: c.Item()})
	}
	hot := clients.Full(ns, hotEntity, hotResource, hotLimits, hotWCU, now)
	writes = append(writes, item.Put{Item: hot.Item(), If: item.Absent(item.AttrPK)})
	for _, w := range writes {
		if _, err := s.Write(ctx, w); err != nil {
			return fmt.Errorf("seed %q: %w", w.Target().PK, err)
		}
	}
	return nil
}

// audits writes audit events and deletes some by hand, while the sweeper removes expired ones.
type audits struct {
	store store.Store
	ns    string

	mu     sync.Mutex
	expire map[string]bool // ids of events that expire in the run
}

// auditEvery is how often an audit event is written; of every eight, five
// expire in the run, two are deleted by hand, and one stays.
const auditEvery = 150 * time.Millisecond

// write writes events until ctx is done.
func (a *audits) write(ctx context.Context) error {
	for i := 0; smithytime.SleepWithContext(ctx, auditEvery) == nil; i++ {
		if err := a.event(context.WithoutCancel(ctx), i); err != nil {
			return fmt.Errorf("audit event %d: %w", i, err)
		}
	}
	return nil
}

func (a *audits) event(ctx context.Context, i int) error {
	at := now()
	e := ledger.Audit{
		Namespace: a.ns, Subject: tenants[i%len(tenants)].entity, ID: fmt.Sprintf("01HZ%022d", i), At: layout.Timestamp(at),
		Action: "limits_set", Principal: "demo", Resource: tenants[i%len(tenants)].resource,
		Details: item.Item{"number": item.N(int64(i))}, TTL: at/1000 + 2,
	}
	byHand, stays := i%8 == 2 || i%8 == 5, i%8 == 7
	if byHand || stays {
		e.TTL = at/1000 + 3600
	} else {
		a.mu.Lock()
		a.expire[e.ID] = true
		a.mu.Unlock()
	}
	if _, err := a.store.Write(ctx, e.Create()); err != nil {
		return err
	}
	if byHand {
		_, err := a.store.Write(ctx, item.Delete{Key: e.Key(), If: item.Exists(item.AttrPK)})
		return err
	}
	return nil
}
