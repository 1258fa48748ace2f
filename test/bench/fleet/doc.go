// Package fleet measures the cost of many processes that share one bucket: real limiters, each with
// its own caches, on one table in memory, in virtual time.
//
// A call takes two milliseconds to the table and two back, give or take a quarter, or longer if the
// case requires it. It is performed in between. So images are as old as in a real fleet, and writes
// collide like there. Requests arrive at random times (a Poisson process), each at a random
// process; a denied request does not come back. Every run is inside a testing/synctest bubble:
// hundreds of seconds pass in one second, and nothing depends on the speed of the machine. The seed
// fixes the traffic; the scheduler orders writes at the same instant.
//
// # The report
//
//	writes/grant    write units per granted acquire, refused writes included
//	writes/try      write units per acquire, granted or not
//	delivered       grants, in percent of the grants of an exact bucket without latency
//	                that is fed the same arrivals
//	low mean, worst how far the stored level, refilled to now, lies below the exact
//	                one, in percent of the capacity: sampled at every arrival, of
//	                the limit that is furthest below
//	excess          the worst excess over all windows of time (design I1), in
//	                tokens: never above zero
//	failed          acquires without a decision or an answer
//	unknown         failed acquires that may have been charged
//	slow            acquires decided after more than 50 ms
//	denied within   how long 99 of 100 denials took at most
//
// The exact level of "low" is the level of an ideal bucket, charged with the growth of the table's
// counter at the instant of the write.
//
// "on dynoxide" is the same traffic in real time, over HTTP to an emulator on this machine, without
// levels and excess.
//
// The processes added by Case.Python are a model: the documented algorithm of the Python client as
// a small writer on the same table.
package fleet
