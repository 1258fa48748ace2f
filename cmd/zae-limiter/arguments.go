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

// flagsInUse matches the flags in a line of usage.
var flagsInUse = regexp.MustCompile(`\{[^}]*\}|\[-[^]]*\]|--?[a-z-]+ [A-Z]+`)

// arguments returns the words in a line of usage, without the command and its flags.
func arguments(c *cobra.Command) []string {
	return strings.Fields(flagsInUse.ReplaceAllString(c.Use, ""))[1:]
}

// wrongFlag rewrites cobra's error about a flag.
func wrongFlag(err error) string {
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want := map[string]string{
			"bool": "true or false", "duration": "a time like 500ms", "float64": "a number", "int": "a whole number",
			"time": "a date like 2026-11-21, or 2026-11-21T12:00:00Z",
		}[value.GetFlag().Value.Type()]
		if want != "" {
			return fmt.Sprintf("--%s %q: want %s", value.GetFlag().Name, value.GetValue(), want)
		}
	}
	return err.Error()
}

// filledFlags refuses empty values, as from unset variables: --entity "" would mean everybody. The
// help of a flag that may be empty says what that means.
func filledFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && !strings.Contains(f.Usage, "empty:") {
			err = usage(c, `--%s is "", want a value`, f.Name)
		}
	})
	return err
}

// countArguments checks the number of arguments against the line of usage. An argument in brackets
// is optional, and one with dots may be repeated. ValidArgs are the accepted values of the first.
func countArguments(c *cobra.Command, got []string) error {
	words := arguments(c)
	isOptional := func(word string) bool { return strings.HasPrefix(word, "[") }
	least := len(slices.DeleteFunc(slices.Clone(words), isOptional))
	more := slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "...") })
	if len(got) < least || len(got) > len(words) && !more {
		return usage(c, "%s, want: %s", count(len(got), "arguments"), c.UseLine())
	}
	if c.ValidArgs != nil && !slices.Contains(c.ValidArgs, got[0]) {
		return usage(c, "%s %q: accepted are %s", c.Name(), got[0], strings.Join(c.ValidArgs, ", "))
	}
	return nil
}

// usage is a mistake in the command line.
func usage(c *cobra.Command, format string, values ...any) error {
	return &statusError{fmt.Errorf(format, values...), wrong, c.CommandPath() + " --help"}
}
