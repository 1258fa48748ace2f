package stream

// NaiveDecode is the second decoder.
var NaiveDecode = naiveDecode
