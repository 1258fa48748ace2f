package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagsInUse are the flags in a line of usage.
var flagsInUse = regexp.MustCompile(`\{[^}]*\}|\[-[^]]*\]|--?[a-z-]+ [A-Z]+`)

// arguments are the words in a line of usage that are neither the command nor flags.
func arguments(c *cobra.Command) []string {
	return strings.Fields(flagsInUse.ReplaceAllString(c.Use, ""))[1:]
}

// wrongFlag words an error about a flag.
func wrongFlag(err error) string {
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want := map[string]string{
			"bool": "true or false", "duration": "a time like 500ms", "float64": "a number", "int": "a whole number",
		}[value.GetFlag().Value.Type()]
		if want != "" {
			return fmt.Sprintf("--%s %q: want %s", value.GetFlag().Name, value.GetValue(), want)
		}
	}
	return err.Error()
}

// countArguments checks how many arguments there are, by the line of usage: an argument in brackets may be
// missing, and one with dots may be given again.
func countArguments(c *cobra.Command, got []string) error {
	words := arguments(c)
	isOptional := func(word string) bool { return strings.HasPrefix(word, "[") }
	least := len(slices.DeleteFunc(slices.Clone(words), isOptional))
	more := slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "...") })
	if len(got) < least || len(got) > len(words) && !more {
		return usage(c, "%s, want: %s", count(len(got), "arguments"), c.UseLine())
	}
	return nil
}

// usageError is a command that is wrong in itself.
type usageError struct{ text, help string }

func (e *usageError) Error() string { return e.text }

func usage(c *cobra.Command, format string, values ...any) error {
	return &usageError{fmt.Sprintf(format, values...), c.CommandPath() + " --help"}
}
