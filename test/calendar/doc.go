// Package calendar holds no code: its tests hold the edges of calendars against
// independent libraries, rrule-go for dates and robfig/cron for cron expressions. Beside the
// Python client, in test/localstack/interop, they are held against cronsim.
package calendar
