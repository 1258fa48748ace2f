// Package calendar knows when the periods of quotas end. It is pure: instants are
// arguments, epoch milliseconds, and nothing here reads a clock.
//
// A calendar is written in one line, its canonical form, which is comparable and is what
// limits carry:
//
//	m0h0@Europe/Berlin      every day at 00:00 in Berlin
//	m0h0D1@UTC              the first of every month
//	m0h0DL@UTC              the last day of every month
//	m0h0D30L@UTC            the 30th, or the last day of a shorter month
//	m0h6w1-5;m0h8w6,7@UTC   at 6 on weekdays, at 8 on weekends
//	+18000                  18,000 seconds after the first use
//
// Before the @ stand cron expressions in the form in which the Python client stores them. Of the
// five fields minute, hour, day, month and weekday (m h D M w) they have those that are no
// wildcard. L is ours.
//
// An edge is a minute that an expression matches when the minute before is not matched by it, in
// the local time of the zone. So a day may have 23 or 25 hours. An edge at a local time that a
// change of clocks leaves out does not come that day. One that comes twice is two edges. That is
// how the Python client counts, and both must agree.
package calendar
