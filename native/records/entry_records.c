#include "records/entry_records.h"

#include "core/bytes.h"
#include "records/codec.h"
#include "walkeeper/entry.h"

wk_status wk_entry_records_open(wk_entry_records *records, wk_buffer *buffer, const uint8_t *entry, size_t size) {
	*records = (wk_entry_records){0};
	wk_envelope envelope;
	if (size < WK_ENTRY_HEADER_SIZE)
		return WK_CORRUPT;
	wk_status status = wk_envelope_decode(entry + WK_ENTRY_HEADER_SIZE, size - WK_ENTRY_HEADER_SIZE, &envelope);
	if (status != WK_OK)
		return status;
	if (envelope.codec == WK_CODEC_NONE) {
		*records = (wk_entry_records){
		    .buffer = wk_buffer_retain(buffer), .bytes = envelope.stored, .size = envelope.stored_size};
		return WK_OK;
	}
	wk_buffer *opened = wk_buffer_new(NULL, envelope.original_size);
	if (opened == NULL)
		return WK_NO_MEMORY;
	status = wk_codec_decompress(envelope.codec, envelope.stored, envelope.stored_size, opened->bytes,
	                             envelope.original_size);
	if (status != WK_OK) {
		wk_buffer_release(opened);
		return status;
	}
	*records = (wk_entry_records){
	    .buffer = opened, .bytes = opened->bytes, .size = envelope.original_size, .compressed = true};
	return WK_OK;
}

int64_t wk_segment_payload(const uint8_t *entry, const wk_entry_records *records, int64_t position) {
	int64_t entry_id = (int64_t)wk_load_be64(entry + 8), length = (int64_t)wk_load_be64(entry + 24);
	int64_t bytes = length - (entry_id + 1) * WK_ENVELOPE_HEADER_SIZE;
	if (!records->compressed)
		bytes -= position * WK_RECORD_HEADER_SIZE;
	return bytes > 0 ? bytes : 0;
}

wk_status wk_entry_records_next(wk_entry_records *records, wk_log_record *record) {
	if (records->at == records->size)
		return WK_END;
	size_t consumed;
	wk_status status = wk_log_record_decode(records->bytes + records->at, records->size - records->at, record,
	                                        &consumed);
	if (status == WK_OK) {
		records->at += consumed;
		records->slot++;
	}
	return status;
}

void wk_entry_records_close(wk_entry_records *records) {
	wk_buffer_release(records->buffer);
	records->buffer = NULL;
}
