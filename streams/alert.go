package streams

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// ErrAlertRefused says that an alert cannot be sent, however often it is tried.
var ErrAlertRefused = errors.New("streams: alert refused")

// Alert says that an entity has spent some percentage of a quota in a period.
type Alert struct {
	// ID is made of the namespace, the entity, the resource, the limit, the period and the
	// percentage: an alert that is sent again has the same ID.
	ID        string `json:"id"`
	Table     string `json:"table"`
	Namespace string `json:"namespace"` // its id
	Entity    string `json:"entity"`
	Resource  string `json:"resource"`
	Limit     string `json:"limit"`
	Percent   int    `json:"percent"` // that was reached or passed
	// Spent and Quota are in whole tokens. Quota includes credits.
	Spent    int64     `json:"spent"`
	Quota    int64     `json:"quota"`
	ResetsAt time.Time `json:"resets_at"` // end of the period, UTC
}

// send sends a threshold, if there is an alert function.
func (a *Aggregator) send(ctx context.Context, t ledger.Threshold) error {
	if a.alert == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k := t.Key()
	sum := sha256.Sum256([]byte(k.PK + "\n" + k.SK))
	err := a.alert(ctx, Alert{
		ID: hex.EncodeToString(sum[:16]), Table: a.table, Namespace: t.Namespace, Entity: t.Entity, Resource: t.Resource,
		Limit: t.Limit, Percent: t.Percent, Spent: t.Spent, Quota: t.Quota, ResetsAt: time.UnixMilli(t.End).UTC(),
	})
	if err != nil {
		return fmt.Errorf("send alert of %q at %d %%: %w", t.Limit, t.Percent, err)
	}
	return nil
}
