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

// answer is the result of a command.
type answer struct {
	value any    // for JSON; nil: nothing
	rows  rows   // for CSV, and as a table for people
	text  string // for people, instead of the table; empty: the table
	none  string // for people, if there are no rows; empty: "nothing there"
	but   error  // the command's error, after the rest is printed; nil: none
}

// rows is a result as a table.
type rows struct {
	head []string
	body [][]any
}

func (r *rows) add(cells ...any) { r.body = append(r.body, cells) }

// single is an answer with one row.
func single(value any, head []string, cells ...any) answer {
	return answer{value: value, rows: rows{head, [][]any{cells}}}
}

// cut is text that tables for people shorten.
type cut string

// text formats a cell for people.
func text(cell any) string {
	if at, ok := cell.(time.Time); ok {
		return stamp(at)
	}
	return fmt.Sprint(cell)
}

// shown formats and shortens a cell for people.
func shown(cell any) string {
	s := harmless(text(cell))
	if cell == any(cut(text(cell))) {
		s = shortened(s, 72)
	}
	return strings.ReplaceAll(s, "\t", " ")
}

// shortened cuts a text to so many letters.
func shortened(s string, most int) string {
	if letters := []rune(s); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return s
}

// exported formats a cell for a spreadsheet, which would evaluate text that looks like a formula.
// Customers choose their names.
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

// formulas are the characters that begin a formula in spreadsheets, full-width ones included.
const formulas = "=+-@\t\r\n＝＋－＠"

// Write prints. All output of a command and its help goes through here, so no failed write is
// overlooked: run returns the first error.
func (a *app) Write(text []byte) (int, error) {
	a.progress.clear()
	n, err := a.out.Write(text)
	a.lost = cmp.Or(a.lost, err)
	return n, err
}

// print writes an answer in the chosen format.
func (a *app) print(said answer) error {
	r := said.rows
	switch a.format {
	case "json":
		return encode(a, said.value, "  ")
	case "csv":
		w := csv.NewWriter(a)
		lines, cell := [][]string{r.head}, exported
		if terminal(a.out) {
			cell = func(c any) string { return harmless(exported(c)) }
		}
		for _, row := range r.body {
			lines = append(lines, each(row, cell))
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

// each applies f to the cells of a row.
func each(row []any, f func(any) string) []string {
	out := make([]string, len(row))
	for i, cell := range row {
		out[i] = f(cell)
	}
	return out
}

// harmless escapes stored text, so that it cannot steer the terminal, change the reading order, or
// break a line.
func harmless(s string) string {
	return strings.Map(func(c rune) rune {
		if steers(c) && c != '\t' {
			return '?'
		}
		return c
	}, s)
}

// steers reports whether a character is not visible: control characters, marks of direction and of
// format, and ends of lines.
func steers(c rune) bool { return !unicode.IsGraphic(c) }

// say writes lines for people.
func (a *app) say(format string, values ...any) {
	a.progress.clear()
	for line := range strings.Lines(plain(fmt.Sprintf(format, values...))) {
		fmt.Fprintln(a.errs, harmless(strings.TrimSuffix(line, "\n")))
	}
}

// collect returns the elements of a listing, at most n unless n is zero.
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

// stamp formats an instant. The zero instant is empty.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
