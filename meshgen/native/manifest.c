/* The digests of a module: `manifest.sha256` is that of `manifest.json`, whose table `files` has those of all other members.

   Of the manifest only that table is read. The rest is skipped, value by value. Source of the syntax: RFC 8259. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MAX_DEPTH = 512, DIGITS = 64 };

typedef struct {
  const unsigned char *next, *end;
} text;

static bool is_space(unsigned char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static void skip_space(text *in) {
  while (in->next < in->end && is_space(*in->next)) in->next++;
}

static bool take(text *in, char wanted) {
  skip_space(in);
  if (in->next == in->end || *in->next != (unsigned char)wanted) return false;
  in->next++;
  return true;
}

/* A string: where it begins and how many bytes it has between its quotes, with escapes as they stand. */
static bool take_string(text *in, const unsigned char **start, size_t *count) {
  if (!take(in, '"')) return false;
  *start = in->next;
  while (in->next < in->end && *in->next != '"') {
    if (*in->next == '\\' && in->end - in->next > 1) in->next++;
    in->next++;
  }
  if (in->next >= in->end) return false;
  *count = (size_t)(in->next - *start);
  in->next++;
  return true;
}

/* Any value. Brackets are counted, not matched by kind: the text between them is skipped. */
static bool skip_value(text *in) {
  int depth = 0;
  do {
    const unsigned char *start;
    size_t count;
    skip_space(in);
    if (in->next == in->end) return false;
    if (*in->next == '"') {
      if (!take_string(in, &start, &count)) return false;
    } else if (*in->next == '{' || *in->next == '[') {
      if (++depth > MAX_DEPTH) return false;
      in->next++;
    } else if (*in->next == '}' || *in->next == ']') {
      if (--depth < 0) return false;
      in->next++;
    } else if (*in->next == ',' || *in->next == ':') {
      if (!depth) return false;
      in->next++;
    } else {
      while (in->next < in->end && !strchr(",:{}[]\" \n\r\t", *in->next)) in->next++;
      if (in->next < in->end && !*in->next) return false;
    }
  } while (depth);
  return true;
}

static bool is_named(const unsigned char *start, size_t count, const char *name) {
  return count == strlen(name) && !memcmp(start, name, count);
}

/* The names and digests of `files`; counts those that are right. */
static mgx_status check_files(const mgx_container *container, text *in, size_t *right) {
  const unsigned char *name, *digest;
  size_t name_bytes, digest_bytes;
  char keys[2][4096] = {"", ""}; /* of this row and the one before, which take turns */
  if (!take(in, '{')) return mgx_damaged(container, "the manifest cannot be read");
  if (take(in, '}')) return MGX_OK;
  do {
    char *key = keys[*right % 2], *previous = keys[(*right + 1) % 2], digits[DIGITS + 1];
    if (!take_string(in, &name, &name_bytes) || !take(in, ':') || !take_string(in, &digest, &digest_bytes) ||
        name_bytes >= sizeof keys[0])
      return mgx_damaged(container, "the manifest cannot be read");
    memcpy(key, name, name_bytes);
    key[name_bytes] = 0;
    if (strcmp(previous, key) >= 0) return mgx_damaged(container, "the manifest lists its members out of order");
    const mgx_member *member = mgx_container_find(container, key);
    if (!member || strlen(member->name) != name_bytes) return mgx_damaged(container, "a member is missing");
    mgx_sha256(member->data, member->nbytes, digits);
    if (!is_named(digest, digest_bytes, digits)) return mgx_damaged(container, "the digest of a member is wrong");
    ++*right;
  } while (take(in, ','));
  return take(in, '}') ? MGX_OK : mgx_damaged(container, "the manifest cannot be read");
}

static mgx_status find_files(const mgx_container *container, const mgx_member *manifest, size_t *right) {
  text in = {manifest->data, manifest->data + manifest->nbytes};
  if (!take(&in, '{')) return mgx_damaged(container, "the manifest cannot be read");
  do {
    const unsigned char *key;
    size_t count;
    if (!take_string(&in, &key, &count) || !take(&in, ':')) break;
    if (is_named(key, count, "files")) return check_files(container, &in, right);
    if (!skip_value(&in)) break;
  } while (take(&in, ','));
  return mgx_damaged(container, "the manifest cannot be read");
}

mgx_status mgx_manifest_check(const mgx_container *container) {
  const mgx_member *manifest = mgx_container_find(container, "manifest.json");
  const mgx_member *digest = mgx_container_find(container, "manifest.sha256");
  if (!manifest || !digest) return mgx_fail(MGX_REFUSED, "MG0501: '%s' is not a meshgen module", container->path);
  char digits[DIGITS + 1];
  mgx_sha256(manifest->data, manifest->nbytes, digits);
  if (!is_named(digest->data, digest->nbytes, digits)) return mgx_damaged(container, "the manifest's digest is wrong");
  size_t right = 0, others = 2 + (mgx_container_find(container, "manifest.sig") != NULL);
  MGX_TRY(find_files(container, manifest, &right));
  if (right + others != container->count) return mgx_damaged(container, "it has members that the manifest does not list");
  return MGX_OK;
}
