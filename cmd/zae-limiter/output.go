package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// answer is what a command has to say.
type answer struct {
	value any    // as JSON; nil: nothing
	rows  rows   // as CSV, and for people as a table
	text  string // for people, in place of the table; empty: the table
	but   error  // ends the command, once that is told; nil: all is well
}

// rows is a result in the form of a table.
type rows struct {
	head []string
	body [][]string
}

func (r *rows) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case time.Time:
			row[i] = stamp(c)
		default:
			row[i] = fmt.Sprint(c)
		}
	}
	r.body = append(r.body, row)
}

// Write prints. All that a command and its help print goes through here, so none of it is lost
// in silence: run ends in the first error, whoever has seen it.
func (a *app) Write(text []byte) (int, error) {
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
		if err := w.Write(r.head); err != nil {
			return err
		}
		return w.WriteAll(r.body)
	}
	if said.text != "" {
		_, err := io.WriteString(a, said.text)
		return err
	}
	if len(r.body) == 0 {
		fmt.Fprintln(a.errs, "nothing there")
		return nil
	}
	w := tabwriter.NewWriter(a, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(strings.Join(r.head, "\t")))
	for _, row := range r.body {
		fmt.Fprintln(w, harmless(strings.Join(row, "\t")))
	}
	return w.Flush()
}

// harmless keeps what others have stored from steering the terminal.
func harmless(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\t' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return '?'
		}
		return c
	}, s)
}

// say writes a line that no program reads.
func (a *app) say(format string, values ...any) {
	fmt.Fprintf(a.errs, format+"\n", values...)
}

// collect returns what a listing yields, at most n of it unless n is zero. It is
// never nil, because JSON would say null.
func collect[T any](seq iter.Seq2[T, error], n int) ([]T, error) {
	out := []T{}
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

// Colours of a diff.
const (
	red, green, yellow = "\x1b[31m", "\x1b[32m", "\x1b[33m"
	plain              = "\x1b[0m"
)

// paint returns text in a colour, if the output is a terminal that wants it.
func (a *app) paint(colour, text string) string {
	if os.Getenv("NO_COLOR") != "" || !terminal(a.out) {
		return text
	}
	return colour + text + plain
}
