package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// answer is what a command has to say.
type answer struct {
	value any    // as JSON; nil: nothing
	rows  rows   // as CSV, and for people as a table
	text  string // for people, in place of the table; empty: the table
	none  string // for people, if there are no rows; empty: "nothing there"
	but   error  // ends the command, once the rest is printed; nil: all is well
}

// rows is a result in the form of a table.
type rows struct {
	head []string
	body [][]any
}

func (r *rows) add(cells ...any) { r.body = append(r.body, cells) }

// single is the answer of a table with one row.
func single(value any, head []string, cells ...any) answer {
	return answer{value: value, rows: rows{head, [][]any{cells}}}
}

// cut is text of which a table for people shows the beginning.
type cut string

// text returns a cell as people read it.
func text(cell any) string {
	if at, ok := cell.(time.Time); ok {
		return stamp(at)
	}
	return fmt.Sprint(cell)
}

// shown returns a cell of a table for people.
func shown(cell any) string {
	s := harmless(text(cell))
	if cell == any(cut(text(cell))) {
		s = shortened(s, 72)
	}
	return strings.ReplaceAll(s, "\t", " ")
}

// shortened returns the beginning of a text that has more than so many letters.
func shortened(s string, most int) string {
	if letters := []rune(s); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return s
}

// exported returns a cell for a spreadsheet, which would calculate text that begins like a
// formula. Customers choose their names.
func exported(cell any) string {
	s := text(cell)
	if !isNumber(cell) && strings.IndexAny(s, formulas) == 0 {
		return "'" + s
	}
	return s
}

// isNumber reports whether a cell is a number, with or without a unit.
func isNumber(cell any) bool {
	v := reflect.ValueOf(cell)
	_, sum := cell.(amount)
	return sum || v.CanInt() || v.CanFloat()
}

// formulas are the letters with which formulas of spreadsheets begin, wide ones too.
const formulas = "=+-@\t\r\n＝＋－＠"

// Write prints. All that a command and its help print goes through here, so none of it is lost
// in silence: run ends in the first error, whichever call has seen it.
func (a *app) Write(text []byte) (int, error) {
	a.progress.clear()
	n, err := a.out.Write(text)
	a.lost = cmp.Or(a.lost, err)
	return n, err
}

// print writes an answer in the format that was asked for.
func (a *app) print(said answer) error {
	r := said.rows
	switch a.format {
	case "json":
		return encode(a, said.value, "  ")
	case "csv":
		w := csv.NewWriter(a)
		lines := [][]string{r.head}
		for _, row := range r.body {
			cells := each(row, exported)
			if terminal(a.out) {
				cells = each(row, func(c any) string { return harmless(exported(c)) })
			}
			lines = append(lines, cells)
		}
		return w.WriteAll(lines)
	}
	if said.text != "" {
		_, err := io.WriteString(a, said.text)
		return err
	}
	if len(r.body) == 0 {
		a.say("%s", cmp.Or(said.none, "nothing there"))
		return nil
	}
	w := tabwriter.NewWriter(a, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(strings.Join(r.head, "\t")))
	for _, row := range r.body {
		fmt.Fprintln(w, strings.Join(each(row, shown), "\t"))
	}
	return w.Flush()
}

// each returns what f makes of the cells of a row.
func each(row []any, f func(any) string) []string {
	out := make([]string, len(row))
	for i, cell := range row {
		out[i] = f(cell)
	}
	return out
}

// harmless keeps what others have stored from steering the terminal, and from being read in
// another order than it is written, or as two lines.
func harmless(s string) string {
	return strings.Map(func(c rune) rune {
		if steers(c) && c != '\t' {
			return '?'
		}
		return c
	}, s)
}

// steers reports whether a letter is none that is seen: control characters, marks of direction
// and of format, and ends of lines.
func steers(c rune) bool { return !unicode.IsGraphic(c) }

// say writes lines that no program reads.
func (a *app) say(format string, values ...any) {
	a.progress.clear()
	for line := range strings.Lines(plain(fmt.Sprintf(format, values...))) {
		fmt.Fprintln(a.errs, harmless(strings.TrimSuffix(line, "\n")))
	}
}

// collect returns what a listing yields, at most n of it unless n is zero.
func collect[T any](seq iter.Seq2[T, error], n int) (out []T, _ error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if n > 0 && len(out) == n {
			break
		}
	}
	return out, nil
}

// stamp renders an instant; the zero one is empty.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
