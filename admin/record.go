package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// caller finds out the principal of the program, once.
type caller struct {
	ask     func(context.Context) (string, error)
	timeout time.Duration
	once    sync.Once
	name    string
}

func (c *caller) principal(ctx context.Context) string {
	c.once.Do(func() {
		if c.ask == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		name, err := c.ask(ctx)
		if err == nil && checkPrincipal("", name) == nil {
			c.name = name
		}
	})
	return c.name
}

func checkPrincipal(field, s string) error {
	if s != "" && layout.CheckEntity(s) != nil {
		return validate.Invalid(field, s, "empty, or "+layout.Names)
	}
	return nil
}

// As returns the same namespace for another principal, which is recorded as the author of its
// changes: a name or an ARN of up to 512 bytes of printable text. Empty: the one of Options. The
// error is ErrInvalid.
func (n *Namespace) As(principal string) (*Namespace, error) {
	if err := checkPrincipal("principal", principal); err != nil {
		return nil, err
	}
	as := *n
	as.principal = principal
	return &as, nil
}

// transact performs all writes or none, once, and only while the namespace is
// active.
func (n *Namespace) transact(ctx context.Context, writes ...item.Write) error {
	err := n.calls.transact(ctx, append(slices.Clip(writes), config.Namespace{ID: n.id}.InUse())...)
	if reasons, ok := refused(err); ok && reasons[len(writes)].Refused {
		return fmt.Errorf("%w: %q was deleted", limiter.ErrNamespace, n.name)
	}
	return err
}

// transactRecorded is transact with the event that records the change.
func (n *Namespace) transactRecorded(ctx context.Context, e ledger.Audit, writes ...item.Write) error {
	s, err := n.readScope(ctx, Scope{})
	if err != nil {
		return err
	}
	return n.transact(ctx, append(writes, n.record(ctx, s.system, e))...)
}

// entitySet is the event of an entity that is stored.
func entitySet(e config.Entity, action string) ledger.Audit {
	return ledger.Audit{Subject: layout.EntitySubject(e.ID), Action: action, Details: config.EntitySet(e)}
}

// entityDeleted is the event of an entity that is deleted with so many items.
func entityDeleted(id string, items int) ledger.Audit {
	return ledger.Audit{Subject: layout.EntitySubject(id), Action: ledger.ActionEntityDeleted,
		Details: config.EntityDeleted(items)}
}

// bucketLevels is the event of a bucket whose limits got tokens; nil: an unknown number.
func (n *Namespace) bucketLevels(of Scope, action string, added map[string]int64) ledger.Audit {
	return ledger.Audit{Subject: layout.EntitySubject(of.Entity), Resource: of.Resource, Action: action,
		Details: ledger.BucketLevels(added, n.once)}
}

// record returns the write that records an event, of which only the change is known. system is the
// namespace's stored configuration, which says how long events are kept.
func (n *Namespace) record(ctx context.Context, system config.Config, e ledger.Audit) item.Write {
	who := cmp.Or(n.principal, n.table.opts.Principal)
	if who == "" {
		who = n.table.caller.principal(ctx)
	}
	now := n.table.now()
	days := system.AuditRetentionDays
	if days <= 0 {
		days = int64(n.table.opts.AuditRetention / day)
	}
	e.Namespace, e.ID, e.At, e.TTL = n.id, n.table.ids.next(now), layout.Timestamp(now), now/1000+days*86400
	e.Principal = who
	return e.Create()
}
