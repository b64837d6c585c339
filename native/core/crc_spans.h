/* crc_spans.h: a CRC's table of 256 registers from the eight that it is made of. Private. */
#ifndef WK_CORE_CRC_SPANS_H
#define WK_CORE_CRC_SPANS_H

/* All 256 sums of eight numbers, where bit i of the index says whether b_i takes part. */
#define SPAN1(x, b0) (x), (x) ^ (b0)
#define SPAN2(x, b0, b1) SPAN1(x, b0), SPAN1((x) ^ (b1), b0)
#define SPAN3(x, b0, b1, b2) SPAN2(x, b0, b1), SPAN2((x) ^ (b2), b0, b1)
#define SPAN4(x, b0, b1, b2, b3) SPAN3(x, b0, b1, b2), SPAN3((x) ^ (b3), b0, b1, b2)
#define SPAN5(x, b0, b1, b2, b3, b4) SPAN4(x, b0, b1, b2, b3), SPAN4((x) ^ (b4), b0, b1, b2, b3)
#define SPAN6(x, b0, b1, b2, b3, b4, b5) SPAN5(x, b0, b1, b2, b3, b4), SPAN5((x) ^ (b5), b0, b1, b2, b3, b4)
#define SPAN7(x, b0, b1, b2, b3, b4, b5, b6) SPAN6(x, b0, b1, b2, b3, b4, b5), SPAN6((x) ^ (b6), b0, b1, b2, b3, b4, b5)
#define SPAN(b0, b1, b2, b3, b4, b5, b6, b7) \
	SPAN7(0u, b0, b1, b2, b3, b4, b5, b6), SPAN7((b7), b0, b1, b2, b3, b4, b5, b6)
#endif
