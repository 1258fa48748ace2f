package bench

import (
	"context"
	"fmt"
	"io"

	"github.com/zeroae/zae-limiter-go/internal/pricing"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Row is one path of the cost table.
type Row struct {
	Path     string
	Budget   Bill
	Measured Bill
	AtMost   bool   // the budgeted reads are an upper bound
	Note     string // the reason for the budget, if the cost table does not give it
}

// local adjusts the budget to DynamoDB Local, which counts that many more units, or if negative,
// fewer.
func (r *Row) local(w *world, read, write float64, what string) {
	if w.direct.Kind == engine.DynamoDBLocal {
		r.Budget.Read, r.Budget.Write = r.Budget.Read+read, r.Budget.Write+write
		r.Note += "; this engine " + what
	}
}

// OK reports whether the path is within its budget.
func (r Row) OK() bool {
	want := r.Budget
	if r.AtMost && r.Measured.Read <= want.Read {
		want.Read = r.Measured.Read
	}
	return r.Measured.Equal(want)
}

// String compares the cost of the path with its budget.
func (r Row) String() string {
	return fmt.Sprintf("%s: %s, %g read and %g write units; budgeted are %s, %g and %g", r.Path, r.Measured,
		r.Measured.Read, r.Measured.Write, r.Budget, r.Budget.Read, r.Budget.Write)
}

// Table is the cost table measured on one emulator.
type Table struct {
	Engine engine.Kind
	Rows   []Row
}

// Measure runs every path on the engine, in a separate table that it removes. It needs the built
// aggregator (see [runtimeapi.Built]). It returns an error if the setup fails or a path took
// another course than the one to measure, but not if a path has another cost.
func Measure(ctx context.Context, e *engine.Engine) (Table, error) {
	t := Table{Engine: e.Kind}
	w, err := newWorld(ctx, e)
	if err != nil {
		return t, err
	}
	defer w.close()
	for _, paths := range []func(fleet, context.Context) ([]Row, error){
		fleet.acquires, fleet.cascades, fleet.waits, fleet.ends, fleet.functions, fleet.outages,
	} {
		f, err := newFleet(ctx, w)
		if err != nil {
			return t, err
		}
		rows, err := paths(f, ctx)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, rows...)
	}
	return t, nil
}

// Print writes the table, one path per line, each beginning with "cost:".
func (t Table) Print(out io.Writer) {
	line := func(format string, args ...any) { fmt.Fprintf(out, "cost: "+format+"\n", args...) }
	line("measured on %s, capacity of indexes included; not on AWS", t.Engine)
	line("%-46s %-44s %5s %6s | %-44s %5s %6s | %8s", "path", "calls", "read", "write", "budget: calls", "read", "write",
		"$/M")
	for _, r := range t.Rows {
		verdict, bound := "ok", ""
		if !r.OK() {
			verdict = "DIFFERS"
		}
		if r.AtMost {
			bound = "<="
		}
		line("%-46s %-44s %5.4g %6.4g | %-44s %5s %6.4g | %8.4f %s", r.Path, r.Measured, r.Measured.Read, r.Measured.Write,
			r.Budget, fmt.Sprintf("%s%.4g", bound, r.Budget.Read), r.Budget.Write, r.Measured.Dollars(), verdict)
		if r.Note != "" {
			line("%-46s %s", "", "("+r.Note+")")
		}
	}
	line("a failed condition counts one write unit per started KB of the item, as AWS charges it; no engine reports it")
	line("$/M: $%g per million write units, $%g per million read units, on demand, us-east-1 since 1 Nov 2024 (AWS, "+
		"Amazon DynamoDB pricing)",
		pricing.DollarsPerMillionWrites, pricing.DollarsPerMillionReads)
}
