/*
 * The bytes of an elastiq package (.elq) and of the packed weights in it, and nothing else.
 *
 * This header is the one definition of every on-disk structure: the C runtime, the C++ reader and
 * the C++ writer all include it. The prose is formats/SPEC-package.md;
 * tests/formats/spec_tables_test.cc compares the two. All fields are little-endian and naturally
 * aligned; reserved bytes are zero and readers check that. Nothing here depends on the machine, the
 * compiler or the instruction set.
 */
#ifndef ELQ_LAYOUT_H
#define ELQ_LAYOUT_H

#include <stdint.h>

#ifdef __cplusplus
#define ELQ_STATIC_ASSERT(condition, text) static_assert(condition, text)
extern "C" {
#else
#define ELQ_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* ---------------------------------------------------------------- container */

/* A non-ASCII byte, three letters, CR LF, ctrl-Z, LF: text-mode damage changes the first eight
 * bytes. */
#define ELQ_MAGIC \
  "\x8E"          \
  "ELQ\r\n\x1A\n"
#define ELQ_MAGIC_BYTES 8
#define ELQ_FORMAT_MAJOR 1
#define ELQ_FORMAT_MINOR 0

typedef struct elq_header {
  uint8_t magic[8];
  uint16_t major;             /* unknown: refuse */
  uint16_t minor;             /* additive only */
  uint32_t header_bytes;      /* 256 */
  uint64_t file_bytes;        /* must equal the real size */
  uint64_t toc_offset;        /* 256 */
  uint32_t toc_count;         /* 1..ELQ_MAX_SECTIONS */
  uint32_t toc_entry_bytes;   /* 96 */
  uint32_t required_features; /* unknown bit: refuse */
  uint32_t optional_features;
  uint64_t security_version; /* monotonic, anti-rollback */
  uint64_t build_id;         /* first 8 bytes of the SHA-256 of the resolved recipe, or 0 */
  uint8_t toc_sha256[32];
  uint8_t reserved[156];
  uint32_t crc32c; /* of bytes 0..251 */
} elq_header;

ELQ_STATIC_ASSERT(sizeof(elq_header) == 256, "elq_header is 256 bytes");

enum elq_section_type {
  ELQ_SECTION_META = 1, /* elq_meta_entry table: the model's hyperparameters */
  ELQ_SECTION_TENS = 2, /* elq_tensor_record table, sorted by name */
  ELQ_SECTION_STRT = 3, /* tensor names, back to back, UTF-8 */
  ELQ_SECTION_WGT = 4,  /* weights; at most ELQ_MAX_WEIGHT_SECTION_BYTES each */
  ELQ_SECTION_TOKZ = 5, /* tokenizer.json */
  ELQ_SECTION_TMPL = 6, /* tokenizer_config.json (chat template, special tokens) */
  ELQ_SECTION_PROF = 7, /* device profile, JSON */
  ELQ_SECTION_KAT = 8,  /* golden vectors, elq_kat_* */
  ELQ_SECTION_LICN = 9, /* licence text */
  ELQ_SECTION_SBOM = 10,
  ELQ_SECTION_SIGN = 11, /* signatures, last */
  ELQ_SECTION_PROV = 12  /* provenance: resolved recipe, plan and digests, JSON */
};

#define ELQ_SECTION_FLAG_ZSTD 1u /* stored bytes are one zstd frame with content size */

typedef struct elq_toc_entry {
  uint32_t type;
  uint32_t flags;
  uint64_t offset; /* from the start of the file, multiple of 1 << align_log2 */
  uint64_t stored_bytes;
  uint64_t raw_bytes;       /* = stored_bytes unless compressed */
  uint32_t align_log2;      /* 6, 12, 14 or 16 */
  uint32_t crc32c;          /* of the stored bytes */
  uint8_t sha256[32];       /* of the raw bytes */
  uint64_t base_section_id; /* delta packages; 0 */
  uint8_t reserved[16];
} elq_toc_entry;

ELQ_STATIC_ASSERT(sizeof(elq_toc_entry) == 96, "elq_toc_entry is 96 bytes");

/* Limits, enforced by every writer and every reader under these names. */
#define ELQ_MAX_FILE_BYTES (UINT64_C(256) << 30)
#define ELQ_MAX_SECTIONS 4096u
#define ELQ_MAX_TENSORS 65536u
#define ELQ_MAX_DIM UINT32_C(0x7fffffff)
#define ELQ_MAX_ELEMENTS (UINT64_C(1) << 40)
#define ELQ_MAX_STRING_BYTES 255u
#define ELQ_MAX_STRING_TABLE_BYTES (8u << 20)
#define ELQ_MAX_META_BYTES (1u << 20)
#define ELQ_MAX_META_KEYS 4096u
#define ELQ_MAX_META_ARRAY 65536u
#define ELQ_MAX_LAYERS 1024u
#define ELQ_MAX_KEPT_COLUMNS 64u
#define ELQ_MAX_RAW_RATIO 64u
#define ELQ_MAX_WEIGHT_SECTION_BYTES \
  (64u << 20) /* a single larger tensor has a section of its own */
#define ELQ_WEIGHT_ALIGN_LOG2 16u
#define ELQ_TENSOR_ALIGN 64u

/* ---------------------------------------------------------------- META: u32 n, u32 0, n entries,
 * then arrays */

enum elq_meta_type {
  ELQ_META_U64 = 1,
  ELQ_META_F64 = 2,
  ELQ_META_U32_ARRAY = 3,
  ELQ_META_F32_ARRAY = 4,
  ELQ_META_TEXT = 5
};

typedef struct elq_meta_entry {
  char key[40]; /* ASCII, zero-padded, at least one zero; entries strictly ascending by key */
  uint32_t type;
  uint32_t count; /* 1 for scalars; elements of an array; bytes of a text */
  uint64_t value; /* the scalar's bits; or the offset of the array from the section start, multiple
                     of 8 */
  uint64_t reserved;
} elq_meta_entry;

ELQ_STATIC_ASSERT(sizeof(elq_meta_entry) == 64, "elq_meta_entry is 64 bytes");

/*
 * Keys of a Llama-family model. U64: model.hidden, model.layers, model.heads, model.kv_heads,
 * model.head_dim, model.ffn, model.vocab, model.max_positions, tokenizer.bos, tokenizer.eos
 * (UINT64_MAX where there is none), tokenizer.add_bos (0 or 1). F64: model.rms_eps,
 * model.rope_theta. TEXT: model.architecture ("llama"), model.name.
 */

/* ---------------------------------------------------------------- TENS */

enum elq_role {
  ELQ_ROLE_EMBED = 1,
  ELQ_ROLE_HEAD = 2,
  ELQ_ROLE_FINAL_NORM = 3,
  ELQ_ROLE_ATTN_NORM = 4,
  ELQ_ROLE_MLP_NORM = 5,
  ELQ_ROLE_Q = 6,
  ELQ_ROLE_K = 7,
  ELQ_ROLE_V = 8,
  ELQ_ROLE_O = 9,
  ELQ_ROLE_GATE = 10,
  ELQ_ROLE_UP = 11,
  ELQ_ROLE_DOWN = 12,
  /* A bias has the role of its matrix plus ELQ_ROLE_BIAS. */
  ELQ_ROLE_BIAS = 32
};

enum elq_tensor_layout {
  ELQ_LAYOUT_F32 = 1,   /* row-major float32 */
  ELQ_LAYOUT_F16 = 2,   /* row-major IEEE half */
  ELQ_LAYOUT_BF16 = 3,  /* row-major bfloat16 */
  ELQ_LAYOUT_PACKED = 4 /* 16x4 cells, below */
};

enum elq_scale_mode {
  ELQ_SCALE_ROW = 1, /* one fp32 per row */
  ELQ_SCALE_U8 = 2,  /* u8 per group under one fp32 per row (default) */
  ELQ_SCALE_F16 = 3  /* fp16 per group */
};

typedef struct elq_tensor_record {
  uint32_t name_offset; /* in STRT */
  uint32_t name_bytes;
  uint32_t role;      /* elq_role */
  uint32_t layer;     /* 0 for tensors outside the blocks */
  uint8_t layout;     /* elq_tensor_layout */
  uint8_t bits;       /* packed: 1, 2, 3, 4 or 8; else 0 */
  uint8_t scale_mode; /* packed: elq_scale_mode; else 0 */
  uint8_t reserved0;
  uint16_t z2;          /* packed: level = 2 * code - z2 */
  uint16_t group;       /* packed: 32, 64, 128, 256, or 0 for one group per row */
  uint32_t rows;        /* outputs; vectors have rows = 1 */
  uint32_t cols;        /* inputs */
  uint32_t padded_rows; /* packed: multiple of 16; else rows */
  uint32_t padded_cols; /* packed: multiple of 32; else cols */
  uint32_t section;     /* TOC index of its WGT section */
  uint32_t n_kept;      /* packed: kept columns, 0..ELQ_MAX_KEPT_COLUMNS */
  uint64_t offset;      /* in the section, multiple of 64 */
  uint64_t
      bytes; /* must equal the closed formula: panels plus kept columns, or rows * cols * size */
  uint64_t kept_offset; /* from the tensor's start; 0 when n_kept is 0 */
  uint32_t smax;        /* U8 mode: largest u8 scale in use; else 0 */
  uint32_t alias_of;    /* 0, or 1 + index of the record whose bytes this one shares */
  uint8_t reserved[48];
} elq_tensor_record;

ELQ_STATIC_ASSERT(sizeof(elq_tensor_record) == 128, "elq_tensor_record is 128 bytes");

/* ---------------------------------------------------------------- packed weights
 *
 * w = half_scale * (2 * code - z2), half_scale = the group's scale / 2:
 *   ROW  half_scale = row_scale[r]
 *   U8   half_scale * level = row_scale[r] * (float)(u8[g][r] * level): the product in the bracket
 * is an exact integer, so a dequantized weight is rounded once F16  half_scale = (float)f16[g][r];
 * half_scale * level is rounded once Rounding is to nearest, ties to even, everywhere.
 *
 * Panel p holds rows 16p..16p+15. A line is 64 bytes; byte 4*r + j belongs to row r = row mod 16.
 * Columns are padded to a multiple of 32, rows to 16; pad codes, pad scales and the codes of kept
 * columns are 0 (their activations are 0 too, which is what makes them neutral: SEQ has no zero
 * level).
 *
 *   panel      = [row-scale line: fp32 x 16, not in F16 mode] superblocks...
 *   superblock = code lines of n groups, then one scale line
 *                n = 4 in U8 mode (u8 of group g, row r at byte 16*g + r),
 *                n = 2 in F16 mode (fp16 at byte 2*(16*g + r)); ROW mode has no scale lines and one
 * group The last superblock may hold fewer groups, the last group fewer columns (a multiple of 32,
 * the short tail); the scale line is whole, unused scales are 0.
 *
 * Code lines of the columns of one group, c = column from the start of the group:
 *   bits 1: line c/32; bit p of byte 4r+j is column 32v + 4p + j
 *   bits 2: line c/16; bits 2p+1..2p of byte 4r+j are column 16v + 4p + j
 *   bits 3: per 32 columns three lines L0, L1, H: low two bits as above in L0 (columns 0-15) and L1
 * (16-31); bit p of H's byte 4r+j is the high bit of column 4p + j bits 4: line c/8; low nibble is
 * column 8v + j, high nibble 8v + 4 + j bits 8: line c/4; byte 4r+j is column 4v + j, code XOR 0x80
 * (two's complement of code - 128)
 *
 * Kept columns follow the panels at kept_offset, each part padded with zeros to a multiple of 64
 * bytes: u16 index[n_kept] ascending, fp32 scale[n_kept], then int8 value[n_kept][padded_rows]
 * column by column. A kept weight is scale[k] * (float)value[k][row].
 */
#define ELQ_PANEL_ROWS 16u
#define ELQ_LINE_BYTES 64u
#define ELQ_COLUMN_PAD 32u

/* One int32 must hold the row sum of U8 and ROW modes: smax * lmax * 127 * padded_cols <= 2^31 - 1
 * with lmax = the largest |2 * code - z2|. Writers lower smax until this holds; readers refuse
 * otherwise. */
#define ELQ_MAX_ROW_SUM UINT64_C(0x7fffffff)

/* ---------------------------------------------------------------- KAT: golden vectors
 * elq_kat_header, then n_matrices elq_kat_matrix, then n_tokens u32 token ids, then n_tokens
 * elq_kat_step. */

typedef struct elq_kat_header {
  uint32_t version; /* 1 */
  uint32_t n_matrices;
  uint32_t n_tokens; /* prompt of the end-to-end check */
  uint32_t reserved;
} elq_kat_header;

/* y = W a for generated activations: a depends on seed alone, the CRC is exact on every machine. */
typedef struct elq_kat_matrix {
  uint32_t tensor; /* index in TENS */
  uint32_t seed;
  uint32_t crc32c; /* of the float32 outputs, little-endian */
  uint32_t reserved;
} elq_kat_matrix;

/* After each prompt token: CRC of all logits, and the best token with its logit. */
typedef struct elq_kat_step {
  uint32_t crc32c;
  uint32_t best_token;
  float best_logit;
  uint32_t reserved;
} elq_kat_step;

ELQ_STATIC_ASSERT(sizeof(elq_kat_matrix) == 16 && sizeof(elq_kat_step) == 16,
                  "KAT records are 16 bytes");

#ifdef __cplusplus
}
#endif

#endif /* ELQ_LAYOUT_H */
