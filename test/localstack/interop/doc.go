// Package interop runs the real Python zae-limiter and this client on one table, and compares how
// each reads the other's writes.
//
// The tests also need Python 3.10 or newer, so they have the build tag "interop": `make
// test-interop` runs them, and installs the pinned releases into .cache/python. Each test is a
// scenario, run on both engines with each release that has the tested feature, on a table of the
// committed template. The Python side is driver.py, a process that follows the scenario and decides
// nothing.
//
// Covered behaviour and its tests:
//
//	configuration levels, written by one, read by    TestConfigurationOfEveryLevelIsRead, TestStoredPolicyIsShared,
//	the other; the registries and items behind them  TestRegistriesAreShared, TestChangesLeaveTheSameItems
//	acquires, settlements, rollbacks in turn,        TestTurnsAreCountedToTheMillitoken
//	levels to the millitoken
//	debt                                             TestDebtIsShared
//	available, time_until_available                  TestPythonSeesWhatIsAvailable, TestBothGiveTheSameWait
//	limits added, raised, removed on either side     TestLimitsChangeUnderUse
//	cascade                                          TestTurnsAreCountedToTheMillitoken, TestCascadesThatDiffer
//	buckets expired, revived, deleted, healed        TestExpiredBucketsAreRevived, TestDeletedBucketsStartAgain,
//	                                                 TestMendedBucketsAreWhole
//	names with - and .                               TestNamesOfLimits, TestNamesOfEntitiesAndResources
//	30 s of load: Python, Go, mixed                  TestConcurrentLoad
//	doubling by Python without our aggregator        TestPythonDoublesAlone
//	and with it                                      TestOurAggregatorKeepsPythonFromDoubling
//	buckets that were doubled all the same           TestBucketsThatPythonDoubledAreMended, TestMixedLoadOnShards
//	the setting for a mixed fleet                    TestMaxShardsOfOneKeepsBucketsWhole
//	Python's writes through our aggregator, read     TestOurAggregatorCountsPython
//	back by Python's queries, hour, day and month
//	the aggregators one after the other, both ways   TestAggregatorsFollowEachOther
//	audit events through the archiver, and read      TestAuditEventsOfPythonAreArchived, TestAuditTrailIsShared
//	namespaces deleted, recovered, purged by either  TestNamespacesAreDeletedRecoveredAndPurged
//	entities created and deleted by either           TestEntitiesAreShared
//	the Python tool on a table only Go has touched   TestPythonToolOnOurTable
//	GSI2 ALL and KEYS_ONLY                           TestQueriesOverAResourceNeedTheWholeIndex
//	version record, all orders, both releases        TestVersionRecordKeepsPythonFromOurFunctions
//	all that 0.17 stores, on a table ours has opened TestOpeningLeavesTheNewerPythonWhole
//	what differs                                     TestDifferencesFromPython
//	what one side refuses or does not know           TestLimitsThatOnlyOursRefuses
//	what either disables, bypasses and charges to    TestDisabledByEither, TestBypassedByEither,
//	parents by policy                                TestCascadePolicyOfEither
//	quotas by the calendar, and their edges          TestQuotasByCalendarAreShared, TestRefundsOfAnEarlierPeriod,
//	                                                 TestEdgesEqualPython, TestEdgesEqualCronsim,
//	                                                 TestDaysOnWhichClocksChange
//	limits by the clock, and the edges of windows    TestSchedulesAreShared, TestEdgesOfWindowsAreShared
//	raises, which Python passes over                 TestRaisesBesidePython
//	slots and floors, which Python passes over       TestPythonPassesOverSlotsAndFloors,
//	and drops when it stores limits                  TestSetLimitsOfPythonDropsWhatOnlyOursHas
//	the body of a denial                             TestBodyOfADenial
//	migration, there and back                        TestMigrationRehearsed
package interop
