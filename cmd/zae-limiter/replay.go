package main

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/replay"
)

// stackName is the default name of the stack.
const stackName = "zae-limiter-go"

// shownReplay is the JSON form of a replayed object.
type shownReplay struct {
	Key           string
	Outcome       replay.Outcome
	Function      replay.Function
	Records       int
	Reason        string
	ToCount       map[string]int64
	CountedBefore map[string]int64
	Behind        []string
	Error         string
}

func replayCommand(a *app) *cobra.Command {
	var stack string
	var deliver bool
	cmd := a.does(&cobra.Command{
		Use: "replay [--deliver]", Short: "list records that the functions gave up; --deliver delivers them again",
		Long: `List the records that the functions of a deployed stack gave up or set aside: batches in
the failed records bucket, and malformed records there and in the archive bucket.

Without --deliver nothing is changed, and the list says what a replay would count. With it,
the command asks (unless --yes), then sends every object to its function, and deletes the
object if all of it succeeded. Nothing is counted or archived twice, so a replay may be
repeated at any time. The exit status is 3 while anything is left.

It needs cloudformation:DescribeStacks, lambda:GetFunctionConfiguration and
InvokeFunction, s3:ListBucket, GetObject and DeleteObject, dynamodb:BatchGetItem.`,
	}, func(c *call) (answer, error) {
		cfg, err := a.awsConfig(c.ctx)
		if err != nil {
			return answer{}, err
		}
		all, err := a.connect(c.ctx, cfg, stack)
		if err == nil && deliver {
			err = a.sure("Deliver again what the functions gave up, and delete what comes through?")
		}
		if err != nil {
			return answer{}, err
		}
		return a.replay(c.ctx, all, deliver), nil
	})
	cmd.Flags().StringVar(&stack, "stack", stackName, "name of the stack")
	cmd.Flags().BoolVar(&deliver, "deliver", false, "deliver, and delete what succeeded")
	return a.asks(cmd)
}

// replay goes through the objects of all buckets. If a listing fails, the answer has the objects
// before that.
func (a *app) replay(ctx context.Context, all []*replay.Replayer, deliver bool) answer {
	values, left := []shownReplay{}, 0
	var failed error
	var seen atomic.Int64
	a.progress.say(func() string { return count(seen.Load(), "objects") })
	r := rows{head: []string{"key", "outcome", "function", "records", "reason", "to count", "counted before", "behind",
		"error"}}
	for _, one := range all {
		for key, err := range one.Keys(ctx) {
			if err != nil {
				failed = cmp.Or(failed, err)
				break
			}
			look := one.Inspect
			if deliver {
				look = one.Replay
			}
			result := look(ctx, key)
			seen.Add(1)
			if result.Outcome != replay.Done {
				left++
			}
			v := replayOf(result)
			values = append(values, v)
			r.add(v.Key, v.Outcome, v.Function, v.Records, v.Reason, amounts(v.ToCount), amounts(v.CountedBefore),
				strings.Join(v.Behind, "; "), v.Error)
		}
	}
	a.say("%s, %d left", count(len(values), "objects"), left)
	said := answer{value: map[string]any{"objects": values, "left": left}, rows: r, but: failed}
	if failed == nil && left > 0 {
		said.but = answerNo("%s left", count(left, "objects"))
	}
	return said
}

func replayOf(r replay.Result) shownReplay {
	v := shownReplay{
		Key: r.Key, Outcome: r.Outcome, Function: r.Batch.Function, Records: r.Batch.Records,
		Reason: r.Batch.Condition, ToCount: r.Usage.ToCount, CountedBefore: r.Usage.Counted, Behind: r.Usage.Behind,
	}
	if r.Err != nil && r.Err.Error() != r.Batch.Condition {
		v.Error = plain(r.Err.Error())
	}
	return v
}
