// Uploads samples, trains, has the newest model in a file, and predicts.
//
//   mcs -r:System.Net.Http -r:System.Runtime.Serialization Learn.cs
//   HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… mono Learn.exe MODEL SAMPLES.csv INPUTS.json MODEL.onnx

using System;
using System.IO;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Runtime.Serialization;
using System.Runtime.Serialization.Json;
using System.Text;
using System.Threading.Tasks;

[DataContract]
class Uploaded
{
    [DataMember(Name = "accepted")] public int Accepted;
    [DataMember(Name = "duplicates")] public int Duplicates;
}

[DataContract]
class Job
{
    [DataMember(Name = "id")] public long Id;
    [DataMember(Name = "state")] public string State;
    [DataMember(Name = "version")] public int? Version;
}

static class Learn
{
    static readonly HttpClient Http = new HttpClient(new HttpClientHandler { UseProxy = false });
    static string model;

    static int Main(string[] arguments)
    {
        return Run(arguments).GetAwaiter().GetResult();
    }

    static async Task<int> Run(string[] arguments)
    {
        if (arguments.Length != 4)
        {
            Console.Error.WriteLine("usage: Learn MODEL SAMPLES.csv INPUTS.json MODEL.onnx");
            return 2;
        }
        Http.BaseAddress = new Uri(Environment.GetEnvironmentVariable("HONED_URL"));
        Http.Timeout = TimeSpan.FromMinutes(10);
        Http.DefaultRequestHeaders.Authorization =
            new AuthenticationHeaderValue("Bearer", Environment.GetEnvironmentVariable("HONED_TOKEN"));
        model = "/v1/models/" + Uri.EscapeDataString(arguments[0]);
        try
        {
            await Upload(arguments[1]);
            await Train();
            await Fetch(arguments[3]);
            Console.WriteLine(await Text(await Post("/predict", File.ReadAllText(arguments[2]), "application/json")));
            return 0;
        }
        catch (HttpRequestException error)
        {
            Console.Error.WriteLine(error.InnerException?.Message ?? error.Message);
            return 1;
        }
    }

    static async Task Upload(string file)
    {
        var found = await Json<Uploaded>(await Post("/samples", File.ReadAllText(file), "text/csv"));
        Console.WriteLine($"accepted {found.Accepted}, duplicates {found.Duplicates}");
    }

    /// <summary>At once, whatever the device does: a person waits for it.</summary>
    static async Task Train()
    {
        var job = await Json<Job>(await Post("/jobs", "{\"ignore_policy\": true}", "application/json"));
        while (job.State != "succeeded")
        {
            if (job.State == "failed" || job.State == "cancelled") throw new HttpRequestException($"job {job.Id} {job.State}");
            await Task.Delay(500);
            job = await Json<Job>(await Http.GetAsync($"/v1/jobs/{job.Id}"));
        }
        Console.WriteLine($"trained version {job.Version}");
    }

    /// <summary>Written beside the old file and moved, so that whoever opens it finds a whole model.</summary>
    static async Task Fetch(string file)
    {
        string tagFile = file + ".etag", part = file + ".part";
        var request = new HttpRequestMessage(HttpMethod.Get, model + "/latest/model.onnx");
        if (File.Exists(file) && File.Exists(tagFile))
        {
            request.Headers.TryAddWithoutValidation("If-None-Match", File.ReadAllText(tagFile));
        }
        var answer = await Http.SendAsync(request);
        if (answer.StatusCode == HttpStatusCode.NotModified)
        {
            Console.WriteLine("unchanged");
            return;
        }
        File.WriteAllBytes(part, await (await Checked(answer)).Content.ReadAsByteArrayAsync());
        if (File.Exists(file)) File.Replace(part, file, null);
        else File.Move(part, file);
        File.WriteAllText(tagFile, answer.Headers.ETag.Tag);
        Console.WriteLine("fetched " + answer.Headers.ETag.Tag);
    }

    static Task<HttpResponseMessage> Post(string path, string body, string type)
    {
        return Http.PostAsync(model + path, new StringContent(body, Encoding.UTF8, type));
    }

    static async Task<T> Json<T>(HttpResponseMessage answer)
    {
        using (var stream = await (await Checked(answer)).Content.ReadAsStreamAsync())
        {
            return (T)new DataContractJsonSerializer(typeof(T)).ReadObject(stream);
        }
    }

    static async Task<string> Text(HttpResponseMessage answer)
    {
        return await (await Checked(answer)).Content.ReadAsStringAsync();
    }

    /// <summary>The answer. Throws with its problem details if the daemon refused.</summary>
    static async Task<HttpResponseMessage> Checked(HttpResponseMessage answer)
    {
        if (answer.IsSuccessStatusCode) return answer;
        throw new HttpRequestException(await answer.Content.ReadAsStringAsync());
    }
}
