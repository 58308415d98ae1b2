/* Checks the digests of a module: `manifest.sha256` is the digest of `manifest.json`, whose object `files` has the digests of all
   other members.

   The parser reads only this object of the manifest and skips all other values. Source of the syntax: RFC 8259. */
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

static bool take(text *in, char expected) {
  skip_space(in);
  if (in->next == in->end || *in->next != (unsigned char)expected) return false;
  in->next++;
  return true;
}

/* Reads a string. Returns the bytes between its quotes, without decoding escapes. */
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

/* Skips any value. Brackets are only counted: a `]` may close a `{`, because the text between them is not used. */
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

/* Checks the names and digests in `files`, and counts them in `checked`. */
static mgx_status check_files(const mgx_container *container, text *in, size_t *checked) {
  const unsigned char *name, *digest;
  size_t name_bytes, digest_bytes;
  char keys[2][4096] = {"", ""}; /* names of this entry and of the previous one, alternately */
  if (!take(in, '{')) return mgx_damaged(container, "the manifest cannot be read");
  if (take(in, '}')) return MGX_OK;
  do {
    char *key = keys[*checked % 2], *previous = keys[(*checked + 1) % 2], digits[DIGITS + 1];
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
    ++*checked;
  } while (take(in, ','));
  return take(in, '}') ? MGX_OK : mgx_damaged(container, "the manifest cannot be read");
}

static mgx_status find_files(const mgx_container *container, const mgx_member *manifest, size_t *checked) {
  text in = {manifest->data, manifest->data + manifest->nbytes};
  if (!take(&in, '{')) return mgx_damaged(container, "the manifest cannot be read");
  do {
    const unsigned char *key;
    size_t count;
    if (!take_string(&in, &key, &count) || !take(&in, ':')) break;
    if (is_named(key, count, "files")) return check_files(container, &in, checked);
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
  size_t checked = 0, unlisted = 2 + (mgx_container_find(container, "manifest.sig") != NULL);
  MGX_TRY(find_files(container, manifest, &checked));
  if (checked + unlisted != container->count) return mgx_damaged(container, "it has members that the manifest does not list");
  return MGX_OK;
}
