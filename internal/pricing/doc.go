// Package pricing computes what a month costs in us-east-1: the usage, and the fixed costs of a
// deployment. It is the only place with prices. The command-line tool prints its results, and the
// page about costs is written from them. A test compares it with the stack's template.
package pricing

// What a million units cost on demand, in us-east-1.
const (
	DollarsPerMillionWrites = 0.625
	DollarsPerMillionReads  = 0.125
)

// What a unit costs an hour where capacity is provisioned.
const (
	DollarsPerWriteUnitHour = 0.00065
	DollarsPerReadUnitHour  = 0.00013
)

// Prices in dollars of one unit of each kind, in us-east-1. Free tiers and discounts are
// left out.
const (
	priceWrite    = DollarsPerMillionWrites / 1e6
	priceRead     = DollarsPerMillionReads / 1e6
	priceStored   = 0.25 // a GB and month
	priceRecovery = 0.20 // of point-in-time recovery, a GB and month

	priceInvocation = 0.20e-6
	priceGBSecond   = 0.0000133334 // arm64
	priceTrace      = 5e-6

	priceLogged      = 0.50 // a GB
	priceLogsKept    = 0.03 // a GB and month
	priceMetric      = 0.30 // of our own, and of event source mappings; for the hours in which it is reported
	priceAlarmMetric = 0.10
	priceDashboard   = 0 // one of the first three of the account; $3 if not

	pricePut     = 5e-6
	priceInS3    = 0.023 // a GB and month
	priceKey     = 1.0
	priceKeyCall = 3e-6
)

// A month.
const (
	monthHours   = 730
	monthSeconds = monthHours * 3600
	monthDays    = monthHours / 24.
)

const gb = 1e9 // bytes, as AWS bills them
