package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

// asks adds --yes to a command that removes or overwrites something. Such a command shows first
// what it is about to change, and asks.
func (a *app) asks(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	return cmd
}

// leaves shows what a command is about to remove, one line each.
func (a *app) leaves(what ...string) {
	for _, w := range what {
		a.say("- %s", w)
	}
}

// differences returns removed lines with a minus, then added lines with a plus.
func differences(from, to []string) (out []string) {
	for _, side := range []struct {
		mark        string
		these, less []string
	}{{"- ", from, to}, {"+ ", to, from}} {
		for _, l := range side.these {
			if !slices.Contains(side.less, l) {
				out = append(out, side.mark+l)
			}
		}
	}
	return out
}

// bucketLines are the levels of a bucket: of all limits, or of the named ones.
func bucketLines(b admin.Bucket, limits ...string) []string {
	var out []string
	for _, l := range b.Levels {
		if len(limits) > 0 && !slices.Contains(limits, l.Name) {
			continue
		}
		left, capacity := leftOf(l)
		if capacity != "" {
			left = fmt.Sprintf("%v of %v left", left, capacity)
		}
		used := amountOf(l.Limit, l.Used)
		out = append(out, fmt.Sprintf("%s/%s %s: %v, %s used", b.Entity, b.Resource, l.Name, left, used))
	}
	return out
}

// sure asks before something that cannot be undone.
func (a *app) sure(question string) error {
	if a.yes {
		return nil
	}
	a.progress.clear()
	fmt.Fprintf(a.errs, "%s [y/N] ", harmless(question))
	answered := make(chan error, 1)
	go func() { answered <- a.answer() }() // reading from a terminal cannot be cancelled
	select {
	case err := <-answered:
		return err
	case <-a.interrupted:
		fmt.Fprintln(a.errs)
		return errors.New("interrupted; nothing was changed")
	}
}

// sure asks, and calls do if the answer is yes.
func (c *call) sure(question string, do func() (answer, error)) (answer, error) {
	if err := c.app.sure(question); err != nil {
		return answer{}, err
	}
	return do()
}

// change shows the lines that leave and come, each labelled with of, asks, and calls do. Without a
// difference it calls same, and does not ask.
func (c *call) change(question, of string, from, to []string, do, same func() (answer, error)) (answer, error) {
	lines := differences(from, to)
	for _, l := range lines {
		c.say("%s%s%s", l[:2], of, l[2:])
	}
	if len(lines) == 0 {
		return same()
	}
	return c.sure(question, do)
}

// answer reads the answer to a question. It returns nil for yes.
func (a *app) answer() error {
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(a.errs)
		return errors.New("no answer; nothing was changed (--yes skips the question)")
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}
