/*
 * Uploads samples, trains, has the newest model in a file, and predicts.
 *
 *   cc -o learn learn.c -lcurl -lcjson
 *   HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… ./learn MODEL SAMPLES.csv INPUTS.json MODEL.onnx
 */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct text {
    char *data;
    size_t size;
};

static CURL *curl;
static char model[512];

static void die(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static size_t append(char *data, size_t unit, size_t count, void *into) {
    struct text *text = into;
    size_t size = unit * count;
    char *grown = realloc(text->data, text->size + size + 1);
    if (grown == NULL) return 0;
    memcpy(grown + text->size, data, size);
    text->data = grown;
    text->size += size;
    grown[text->size] = '\0';
    return size;
}

static struct text read_file(const char *path) {
    struct text text = {calloc(1, 1), 0};
    char part[65536];
    FILE *file = fopen(path, "rb");
    if (file == NULL) die(path, "cannot be read");
    for (size_t size; (size = fread(part, 1, sizeof part, file)) > 0;) append(part, 1, size, &text);
    fclose(file);
    return text;
}

/* The answer's body. header: one that is sent, or NULL. tag: room for the ETag, or NULL. */
static struct text ask(const char *method, const char *path, const char *header, const struct text *body,
                       long *status, char tag[80]) {
    struct text answer = {calloc(1, 1), 0};
    struct curl_header *found;
    char url[1024], token[512];
    snprintf(url, sizeof url, "%s%s", getenv("HONED_URL"), path);
    snprintf(token, sizeof token, "Authorization: Bearer %s", getenv("HONED_TOKEN"));
    struct curl_slist *headers = curl_slist_append(NULL, token);
    if (header != NULL) headers = curl_slist_append(headers, header);

    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 600L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    if (body != NULL) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->data);
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    CURLcode code = curl_easy_perform(curl);
    if (code != CURLE_OK) die(path, curl_easy_strerror(code));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    if (*status >= 400) die(path, answer.data); /* problem details: code, detail, errors */
    if (tag != NULL && curl_easy_header(curl, "ETag", 0, CURLH_HEADER, -1, &found) == CURLHE_OK)
        snprintf(tag, 80, "%s", found->value);
    curl_slist_free_all(headers);
    return answer;
}

static cJSON *ask_json(const char *method, const char *path, const char *type, const struct text *body) {
    long status;
    struct text answer = ask(method, path, type, body, &status, NULL);
    cJSON *json = cJSON_Parse(answer.data);
    if (json == NULL) die(path, "the answer is no JSON");
    free(answer.data);
    return json;
}

static double number(const cJSON *json, const char *name) {
    return cJSON_GetNumberValue(cJSON_GetObjectItem(json, name));
}

static void upload(const char *file) {
    char path[640];
    struct text samples = read_file(file);
    snprintf(path, sizeof path, "%s/samples", model);
    cJSON *answer = ask_json("POST", path, "Content-Type: text/csv", &samples);
    printf("accepted %.0f, duplicates %.0f\n", number(answer, "accepted"), number(answer, "duplicates"));
    cJSON_Delete(answer);
    free(samples.data);
}

/* At once, whatever the device does: a person waits for it. */
static void train(void) {
    char path[640];
    const char *state;
    char wanted[] = "{\"ignore_policy\": true}";
    struct text body = {wanted, sizeof wanted - 1};
    snprintf(path, sizeof path, "%s/jobs", model);
    cJSON *job = ask_json("POST", path, "Content-Type: application/json", &body);
    snprintf(path, sizeof path, "/v1/jobs/%.0f", number(job, "id"));
    while (state = cJSON_GetStringValue(cJSON_GetObjectItem(job, "state")), strcmp(state, "succeeded") != 0) {
        if (strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0) die(path, cJSON_Print(job));
        usleep(500000);
        cJSON_Delete(job);
        job = ask_json("GET", path, NULL, NULL);
    }
    printf("trained version %.0f\n", number(job, "version"));
    cJSON_Delete(job);
}

/* Written beside the old file and renamed, so that whoever opens it finds a whole model. */
static void fetch(const char *file) {
    long status;
    char path[640], part[1024], tag_file[1024], header[160], tag[80] = "";
    snprintf(path, sizeof path, "%s/latest/model.onnx", model);
    snprintf(part, sizeof part, "%s.part", file);
    snprintf(tag_file, sizeof tag_file, "%s.etag", file);
    int has = access(file, R_OK) == 0 && access(tag_file, R_OK) == 0;
    struct text known = has ? read_file(tag_file) : (struct text){NULL, 0};
    snprintf(header, sizeof header, "If-None-Match: %.80s", has ? known.data : "\"\"");
    struct text answer = ask("GET", path, header, NULL, &status, tag);
    if (status == 200) {
        FILE *out = fopen(part, "wb");
        if (out == NULL || fwrite(answer.data, 1, answer.size, out) != answer.size || fclose(out) != 0) die(part, "not written");
        if (rename(part, file) != 0) die(file, "not replaced");
        out = fopen(tag_file, "w");
        if (out == NULL || fputs(tag, out) < 0 || fclose(out) != 0) die(tag_file, "not written");
        printf("fetched %s\n", tag);
    } else {
        printf("unchanged\n");
    }
    free(answer.data);
    free(known.data);
}

static void predict(const char *file) {
    char path[640];
    long status;
    struct text inputs = read_file(file);
    snprintf(path, sizeof path, "%s/predict", model);
    struct text answer = ask("POST", path, "Content-Type: application/json", &inputs, &status, NULL);
    printf("%s\n", answer.data);
    free(answer.data);
    free(inputs.data);
}

int main(int count, char *arguments[]) {
    if (count != 5) die("usage", "learn MODEL SAMPLES.csv INPUTS.json MODEL.onnx");
    if (getenv("HONED_URL") == NULL || getenv("HONED_TOKEN") == NULL) die("HONED_URL, HONED_TOKEN", "not set");
    curl = curl_easy_init();
    snprintf(model, sizeof model, "/v1/models/%s", arguments[1]);
    upload(arguments[2]);
    train();
    fetch(arguments[4]);
    predict(arguments[3]);
    curl_easy_cleanup(curl);
    return 0;
}
