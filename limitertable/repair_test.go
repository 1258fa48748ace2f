package limitertable

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func (f *fake) UpdateTable(
	_ context.Context, in *dynamodb.UpdateTableInput, _ ...func(*dynamodb.Options),
) (*dynamodb.UpdateTableOutput, error) {
	what := "switch on stream"
	if in.DeletionProtectionEnabled != nil {
		what = "protect"
	}
	applies, err := f.called(what, in.TableName)
	if err == nil && f.table.TableStatus != types.TableStatusActive {
		return nil, &types.ResourceInUseException{}
	}
	if applies {
		f.table.TableStatus, f.active = types.TableStatusUpdating, 2
		if in.DeletionProtectionEnabled != nil {
			f.table.DeletionProtectionEnabled = in.DeletionProtectionEnabled
		} else {
			f.table.StreamSpecification, f.table.LatestStreamArn = in.StreamSpecification, aws.String("arn:new")
		}
	}
	return nil, err
}

func (f *fake) DescribeContinuousBackups(
	_ context.Context, in *dynamodb.DescribeContinuousBackupsInput, _ ...func(*dynamodb.Options),
) (*dynamodb.DescribeContinuousBackupsOutput, error) {
	_, err := f.called("look at recovery", in.TableName)
	is := types.PointInTimeRecoveryStatusDisabled
	if f.pitr {
		is = types.PointInTimeRecoveryStatusEnabled
	}
	return &dynamodb.DescribeContinuousBackupsOutput{
		ContinuousBackupsDescription: &types.ContinuousBackupsDescription{
			PointInTimeRecoveryDescription: &types.PointInTimeRecoveryDescription{PointInTimeRecoveryStatus: is},
		}}, err
}

func (f *fake) UpdateContinuousBackups(
	_ context.Context, in *dynamodb.UpdateContinuousBackupsInput, _ ...func(*dynamodb.Options),
) (*dynamodb.UpdateContinuousBackupsOutput, error) {
	applies, err := f.called("switch on recovery", in.TableName)
	if set := in.PointInTimeRecoverySpecification; applies && aws.ToBool(set.PointInTimeRecoveryEnabled) {
		f.pitr = true
	}
	return nil, err
}

// restored is a table as AWS restores one: items, keys and indexes.
func restored() *fake {
	f := existing(Deployed(), types.TimeToLiveStatusDisabled)
	f.table.StreamSpecification, f.table.LatestStreamArn, f.table.TableStatus = nil, nil, types.TableStatusActive
	return f
}

// whole is a table to which nothing is lacking.
func whole() *fake {
	f := existing(Deployed(), types.TimeToLiveStatusEnabled)
	f.table.TableStatus, f.table.DeletionProtectionEnabled, f.pitr = types.TableStatusActive, aws.Bool(true), true
	return f
}

// changes are the calls that change a table.
func (f *fake) changes() (out []string) {
	for _, call := range f.calls {
		if strings.HasPrefix(call, "switch on") || call == "protect" {
			out = append(out, call)
		}
	}
	return out
}

// A restored table gets all that it lacks, and another call has nothing to do.
func TestRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := restored()
		d, done, err := Repair(t.Context(), db, "limits")
		if err != nil || done != (Repaired{true, true, true, true}) || d.StreamARN != "arn:new" || !d.Protected {
			t.Fatalf("%+v, %+v, %v", d, done, err)
		}
		if err := Check(t.Context(), db, "limits"); err != nil || !db.pitr {
			t.Errorf("recovery %v, %v", db.pitr, err)
		}
		db.calls = nil
		if _, done, err := Repair(t.Context(), db, "limits"); err != nil || done != (Repaired{}) || db.changes() != nil {
			t.Errorf("again: %+v, %v, %q", done, err, db.changes())
		}
		for lacking, change := range map[string]func(*fake){
			"protect":            func(f *fake) { f.table.DeletionProtectionEnabled = nil },
			"switch on ttl":      func(f *fake) { f.ttl.TimeToLiveStatus = types.TimeToLiveStatusDisabled },
			"switch on stream":   func(f *fake) { f.table.StreamSpecification = nil },
			"switch on recovery": func(f *fake) { f.pitr = false },
		} {
			db := whole()
			change(db)
			if _, _, err := Repair(t.Context(), db, "limits"); err != nil || !slices.Equal(db.changes(), []string{lacking}) ||
				db.table.TableStatus != types.TableStatusActive {
				t.Errorf("%q, want %q, at the end %s: %v", db.changes(), lacking, db.table.TableStatus, err)
			}
		}
	})
}

// Whatever fails, the error says what, the result says what is done already, and the next call goes on.
// An answer that was lost does no harm.
func TestRepairGoesOn(t *testing.T) {
	after := map[string]Repaired{
		"protect": {}, "switch on ttl": {Protection: true}, "switch on stream": {Protection: true, TTL: true},
		"look at recovery":   {Protection: true, TTL: true, Stream: true},
		"switch on recovery": {Protection: true, TTL: true, Stream: true},
		"describe":           {}, "look at ttl": {},
	}
	for call, want := range after {
		for _, lost := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				broken := errors.New("broken")
				db := restored()
				db.fails, db.lost = map[string]error{call: broken}, lost
				_, done, err := Repair(t.Context(), db, "limits")
				healed := lost && (call == "switch on ttl" || call == "switch on stream")
				if healed && done != (Repaired{true, true, true, true}) {
					t.Errorf("%s heals: %+v", call, done)
				}
				if healed != (err == nil) || !healed && (done != want || !errors.Is(err, broken) ||
					!strings.Contains(err.Error(), `table "limits"`)) {
					t.Errorf("%s fails, lost %v: %+v, %v", call, lost, done, err)
				}
				db.fails = nil
				if _, _, err := Repair(t.Context(), db, "limits"); err != nil || !db.pitr {
					t.Errorf("%s failed, lost %v, again: %v", call, lost, err)
				}
			})
		}
	}
}

// What Repair cannot mend, it leaves alone.
func TestOtherTablesAreNotRepaired(t *testing.T) {
	for want, change := range map[string]func(*fake){
		"stream: is KEYS_ONLY, must be NEW_AND_OLD_IMAGES": func(f *fake) {
			f.table.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true),
				StreamViewType: types.StreamViewTypeKeysOnly}
		},
		"time to live: is expires, must be ttl": func(f *fake) {
			f.ttl.AttributeName, f.ttl.TimeToLiveStatus = aws.String("expires"), types.TimeToLiveStatusEnabled
		},
		"index GSI1: is missing": func(f *fake) { f.table.GlobalSecondaryIndexes = nil },
		"index GSI2: is missing": func(f *fake) {
			f.table.GlobalSecondaryIndexes[1].IndexStatus = types.IndexStatusDeleting
		},
		"index GSI4: is missing": func(f *fake) {
			f.table.GlobalSecondaryIndexes[3].IndexStatus = types.IndexStatusCreating
		},
		`table "limits" is CREATING`: func(f *fake) { f.table.TableStatus, f.active = types.TableStatusCreating, 100 },
		"no such table":              func(f *fake) { f.table = nil },
	} {
		db := restored()
		change(db)
		_, done, err := Repair(t.Context(), db, "limits")
		if err == nil || !strings.Contains(err.Error(), want) || done != (Repaired{}) || db.changes() != nil {
			t.Errorf("%q, %+v, %v, want %q", db.changes(), done, err, want)
		}
	}
}
