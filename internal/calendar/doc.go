// Package calendar computes when the periods of quotas end. It is pure: instants are arguments, in
// epoch milliseconds, and nothing here reads a clock.
//
// A calendar is written in one line, its canonical form, which is comparable and stored in limits:
//
//	m0h0@Europe/Berlin      every day at 00:00 in Berlin
//	m0h0D1@UTC              the first of every month
//	m0h0DL@UTC              the last day of every month
//	m0h0D30L@UTC            the 30th, or the last day of a shorter month
//	m0h6w1-5;m0h8w6,7@UTC   at 6 on weekdays, at 8 on weekends
//	+18000                  18,000 seconds after the first use
//
// Before the @ are cron expressions in the Python client's stored form. Of the five fields
// minute, hour, day, month and weekday (m h D M w), they have the ones that are not wildcards. L is
// our addition.
//
// A period begins at a local time that an expression matches if it does not match the minute
// before. The edge is the first instant at which the clocks of the zone have reached that local
// time or a later one. So a day may have 23 or 25 hours. A local time that occurs twice is one
// edge, the first time; one that is skipped is an edge when the clocks are set forward. Debian's
// cron and cronsim have the same rule for fixed times. The Python client has another rule on such
// days: docs/python.md describes both in one table.
package calendar
