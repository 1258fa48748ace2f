// Package calendar contains only tests, which compare the edges of calendars with independent
// libraries: rrule-go for dates and robfig/cron for cron expressions. The tests with the Python
// client, in test/localstack/interop, compare them with cronsim.
package calendar
